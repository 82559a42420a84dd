/* What the parts of the plugin share. Needs Slurm's headers before it. */
#ifndef RCA_H
#define RCA_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"

/* --- config.c: rca.conf, beside slurm.conf */

typedef struct {
	char *address;        /* Listen: the numeric address ... */
	uint16_t port;        /* ... and the port */
	bool munge;           /* Auth: munge credentials; else the job's own secret */
	char *munge_socket;   /* MungeSocket: NULL for munge's own */
	bool ask;             /* Ask: whether running applications are asked for the queue's head */
	int ask_interval_ms;  /* AskInterval */
	int answer_ms;        /* AnswerTimeout */
	int read_ms;          /* ReadTimeout */
	int max_connections;  /* MaxConnections */
	int max_age;          /* MaxAge, s */
	bool batch_host;      /* ReleaseBatchHost: whether the batch script's node may be given away */
	char *records;        /* Records: a file that gets a line for everything that was done or refused */
} rca_config_t;

/* Read the file; return whether all of it could be understood. Errors are logged, with the line. */
bool rca_config_read(rca_config_t *config);
void rca_config_free(rca_config_t *config);

/* --- records.c */

void rca_records_open(const char *path);
void rca_records_close(void);
/* Append a line of JSON with the time, the event and the rest, a part of an object such as "\"job\":1". */
void rca_record(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
double rca_now(void);
int64_t rca_clock_ms(void);

/* --- auth.c */

/* Check that a line comes from the owner of the job in its message; NULL, or why not. Takes locks. */
const char *rca_authenticate(const rca_config_t *config, const rca_line_t *line, const rca_message_t *message,
			     bool *sent_before);
/* Sign a body for the application of a job; NULL where it has no secret. To be freed with xfree. */
char *rca_sign(uint32_t job_id, const char *body);
void rca_auth_tick(void);
void rca_auth_free(void);

/* --- jobs.c */

/* Give a node of a job back; the answer says what was done, or why not. */
bool rca_release(const rca_config_t *config, const rca_message_t *message, char *answer, size_t room);
bool rca_is_running(uint32_t job_id);
/* End what ended jobs left on nodes that they gave away; return whether any are still lent. */
bool rca_clean_lent(void);
void rca_lent_load(void);
void rca_lent_free(void);
/* Have the scheduler look at the queue now. */
void rca_schedule(void);

typedef struct {
	uint32_t waiting; /* the first waiting job that lacks nodes; 0: none */
	uint32_t lacks;   /* how many */
	double deadline;  /* when its nodes are expected, s since 1970; 0: unknown */
} rca_head_t;

void rca_queue_head(rca_head_t *head);
/* Remaining node-seconds by its time limit of a job that could help the head; negative: it cannot. */
double rca_harm(uint32_t job_id, uint32_t waiting);

/* --- asking.c */

void rca_ask_tick(const rca_config_t *config);
void rca_ask_answered(const rca_message_t *message);
void rca_ask_released(uint32_t job_id, const char *node);
void rca_ask_free(void);

/* --- server.c */

void rca_serve(const rca_config_t *config, int wake);
/* Send a line to the application of a job that listens; return whether it went out. */
bool rca_send_to(uint32_t job_id, const char *line);
/* Call for every job whose application listens. */
void rca_each_listener(void (*call)(uint32_t job_id, void *context), void *context);

#endif
