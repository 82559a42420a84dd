/* Asks running applications for nodes for the job at the queue's head: one after the other, each once for each
 * waiting job, those with the least node-seconds left first. Nodes come back as NodeIdle, when they are idle. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <stdlib.h>
#include <string.h>

#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"

#include "rca.h"

typedef struct {
	uint32_t job_id;
	uint32_t nodes; /* that it promised for the head and has not yet released */
	bool asked;
} asked_t;

static struct {
	uint32_t waiting;  /* the job for which others are asked */
	List jobs;         /* those asked for it */
	uint32_t request;  /* number of the last request */
	uint32_t open;     /* job whose answer is awaited; 0: none */
	int64_t answer_by; /* when it is awaited no longer */
	int64_t next;      /* when the queue is looked at again */
} asking;

static void item_free(void *item)
{
	xfree(item);
}

static int is_job(void *item, void *key)
{
	return ((asked_t *) item)->job_id == *(uint32_t *) key;
}

typedef struct {
	uint32_t waiting, best;
	double harm;
} choice_t;

static void choose(uint32_t job_id, void *context)
{
	choice_t *choice = context;
	double harm;

	if (list_find_first(asking.jobs, is_job, &job_id))
		return;
	harm = rca_harm(job_id, choice->waiting);
	if (harm >= 0 && (!choice->best || harm < choice->harm || (harm == choice->harm && job_id < choice->best))) {
		choice->best = job_id;
		choice->harm = harm;
	}
}

static int add_promised(void *item, void *arg)
{
	asked_t *one = item;

	if (one->nodes && !rca_is_running(one->job_id))
		one->nodes = 0; /* its nodes are free anyway */
	*(uint32_t *) arg += one->nodes;
	return 0;
}

static void ask(const rca_config_t *config, uint32_t job_id, const rca_head_t *head, uint32_t lacks)
{
	asked_t *one = xmalloc(sizeof(*one));
	char *body, *line;

	one->job_id = job_id;
	list_append(asking.jobs, one);
	asking.request++;
	body = xstrdup_printf("{\"type\":\"ReleaseRequest\",\"job\":\"%u\",\"request\":%u,\"nodes\":%u,"
			      "\"for_job\":\"%u\",\"deadline\":%.3f,\"time\":%.6f}",
			      job_id, asking.request, lacks, head->waiting, head->deadline, rca_now());
	line = rca_sign(job_id, body);
	if (line && rca_send_to(job_id, line)) {
		asking.open = job_id;
		asking.answer_by = rca_clock_ms() + config->answer_ms;
		info("rca: asked JobId=%u for %u nodes for JobId=%u", job_id, lacks, head->waiting);
		rca_record("asked", "\"job\":%u,\"request\":%u,\"nodes\":%u,\"for_job\":%u", job_id, asking.request,
			   lacks, head->waiting);
	}
	xfree(line);
	xfree(body);
}

void rca_ask_tick(const rca_config_t *config)
{
	int64_t now = rca_clock_ms();
	uint32_t promised = 0;
	choice_t choice = { 0 };
	rca_head_t head;

	if (!config->ask || now < asking.next)
		return;
	if (asking.open) {
		if (now < asking.answer_by)
			return;
		info("rca: JobId=%u did not answer request %u in time", asking.open, asking.request);
		rca_record("unanswered", "\"job\":%u,\"request\":%u", asking.open, asking.request);
		asking.open = 0;
	}
	asking.next = now + config->ask_interval_ms;
	rca_queue_head(&head);
	if (!asking.jobs)
		asking.jobs = list_create(item_free);
	if (head.waiting != asking.waiting) {
		list_flush(asking.jobs);
		asking.waiting = head.waiting;
	}
	if (!head.waiting)
		return;
	list_for_each(asking.jobs, add_promised, &promised);
	if (promised >= head.lacks)
		return;
	choice.waiting = head.waiting;
	rca_each_listener(choose, &choice);
	if (choice.best)
		ask(config, choice.best, &head, head.lacks - promised);
}

void rca_ask_answered(const rca_message_t *message)
{
	bool accepted = message->kind == RCA_RELEASE_ACCEPTED;
	uint32_t job_id = message->job_id, nodes = 0;
	asked_t *one;

	for (const char *at = message->nodes; accepted && *at; at++)
		nodes += at == message->nodes || at[-1] == ',';
	info("rca: JobId=%u %s request %u: %s", job_id, accepted ? "accepts" : "rejects", message->request,
	     accepted ? message->nodes : message->reason);
	if (accepted)
		rca_record("accepted", "\"job\":%u,\"request\":%u,\"nodes\":\"%s\"", job_id, message->request,
			   message->nodes);
	else
		rca_record("rejected", "\"job\":%u,\"request\":%u,\"reason\":\"%s\"", job_id, message->request,
			   message->reason);
	if (job_id == asking.open && message->request == asking.request) {
		asking.open = 0;
		asking.next = 0; /* the next one at once, if more are needed */
	}
	if (asking.jobs && accepted && (one = list_find_first(asking.jobs, is_job, &job_id)))
		one->nodes = nodes;
}

void rca_ask_released(uint32_t job_id, const char *node)
{
	asked_t *one;

	(void) node;
	if (asking.jobs && (one = list_find_first(asking.jobs, is_job, &job_id)) && one->nodes)
		one->nodes--;
}

void rca_ask_free(void)
{
	FREE_NULL_LIST(asking.jobs);
	memset(&asking, 0, sizeof(asking));
}
