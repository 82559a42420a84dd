/* One line of the wire: "rca2 SCHEME PROOF BODY", the body a flat JSON object (mlsim/mpi/rca/wire.py). */
#ifndef RCA_MESSAGE_H
#define RCA_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RCA_LONGEST 4096 /* bytes of a line, with its end */
#define RCA_NAME 256
#define RCA_TEXT 512
#define RCA_NONCE 33

typedef enum {
	RCA_NODE_IDLE,
	RCA_LISTENING,
	RCA_RELEASE_ACCEPTED,
	RCA_RELEASE_REJECTED,
	RCA_JOB_COMPLETED,
} rca_kind_t;

typedef struct {
	rca_kind_t kind;
	uint32_t job_id;
	char node[RCA_NAME];   /* NodeIdle */
	char nodes[RCA_TEXT];  /* ReleaseAccepted: names with commas between */
	char reason[RCA_TEXT]; /* ReleaseRejected */
	uint32_t request;      /* of the two answers: the number of the request */
	double time;           /* of sending, s since 1970 */
	char nonce[RCA_NONCE];
} rca_message_t;

/* A line in parts; they point into the line, which is cut up. */
typedef struct {
	const char *scheme, *proof, *body;
	size_t body_size;
} rca_line_t;

/* Cut a line up; return NULL, or why not. */
const char *rca_cut_line(char *line, size_t size, rca_line_t *parts);

/* Read a body whose proof was checked, or whose job has to be known first; return NULL, or why not. */
const char *rca_read_message(const char *body, size_t size, rca_message_t *message);

/* Compare two digests in a time that tells nothing of them. */
bool rca_same_digest(const char *one, const char *other);

#endif
