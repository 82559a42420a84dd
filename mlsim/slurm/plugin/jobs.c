/* What the plugin does to jobs: takes a node out of one, and ends what an ended job left on it. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/common/bitstring.h"
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/read_config.h"
#include "src/common/slurm_accounting_storage.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/gang.h"
#include "src/slurmctld/gres_ctld.h"
#include "src/slurmctld/job_scheduler.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/node_scheduler.h"
#include "src/slurmctld/slurmctld.h"

#include "rca.h"

/* --- Nodes that running jobs gave away. Slurm signals them no more for these jobs, so that a cancelled job
 * would leave processes there. Kept in a file beside the controller's state, for its restart. */

typedef struct {
	uint32_t job_id;
	time_t start_time; /* tells attempts of a requeued job apart */
	char *node;
} lent_t;

static List lent;

static void lent_item_free(void *item)
{
	xfree(((lent_t *) item)->node);
	xfree(item);
}

static char *lent_path(const char *end)
{
	return xstrdup_printf("%s/rca_lent%s", slurm_conf.state_save_location, end);
}

static int write_lent(void *item, void *file)
{
	lent_t *one = item;

	fprintf(file, "%u %ld %s\n", one->job_id, (long) one->start_time, one->node);
	return 0;
}

static void save_lent(void)
{
	char *path = lent_path(""), *partial = lent_path(".new");
	FILE *file = fopen(partial, "we");
	bool good = file != NULL;

	if (file) {
		list_for_each(lent, write_lent, file);
		good = !fflush(file) && !fsync(fileno(file));
		good = !fclose(file) && good;
	}
	if (!good || rename(partial, path))
		error("rca: %s: cannot be written: %m", path);
	xfree(path);
	xfree(partial);
}

static void add_lent(uint32_t job_id, time_t start_time, const char *node)
{
	lent_t *one = xmalloc(sizeof(*one));

	one->job_id = job_id;
	one->start_time = start_time;
	one->node = xstrdup(node);
	list_append(lent, one);
}

void rca_lent_load(void)
{
	char *path = lent_path("");
	FILE *file = fopen(path, "re");
	char node[RCA_NAME];
	unsigned job_id;
	long start_time;

	lent = list_create(lent_item_free);
	while (file && fscanf(file, "%u %ld %255s", &job_id, &start_time, node) == 3)
		add_lent(job_id, start_time, node);
	if (file)
		fclose(file);
	else if (errno != ENOENT)
		error("rca: %s: cannot be read: %m", path);
	xfree(path);
}

void rca_lent_free(void)
{
	FREE_NULL_LIST(lent);
}

/* End what is left of the job on the node if that attempt of it has ended; whether it is done with. */
static int clean_one(void *item, void *arg)
{
	lent_t *one = item;
	job_record_t *job = find_job_record(one->job_id);
	bool same = job && job->start_time == one->start_time;

	(void) arg;
	if (same && (IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job)))
		return 0;
	/* A later attempt may have got this very node; then Slurm itself takes care of it. */
	if (!same && job && job->node_bitmap && (IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job))) {
		node_record_t *node = find_node_record(one->node);
		if (node && bit_test(job->node_bitmap, node->index))
			return 1;
	}
	debug("rca: JobId=%u has ended, cleaning %s", one->job_id, one->node);
	if (find_node_record(one->node))
		abort_job_on_node(one->job_id, job, one->node);
	rca_record("cleaned", "\"job\":%u,\"node\":\"%s\"", one->job_id, one->node);
	return 1;
}

bool rca_clean_lent(void)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = WRITE_LOCK, .node = READ_LOCK };

	if (!list_count(lent))
		return false;
	lock_slurmctld(locks);
	if (job_list && list_delete_all(lent, (ListFindF) clean_one, NULL))
		save_lent();
	unlock_slurmctld(locks);
	return list_count(lent) > 0;
}

/* --- Releases. */

bool rca_is_running(uint32_t job_id)
{
	slurmctld_lock_t locks = { .job = READ_LOCK };
	job_record_t *job;
	bool running;

	lock_slurmctld(locks);
	job = job_list ? find_job_record(job_id) : NULL;
	running = job && IS_JOB_RUNNING(job);
	unlock_slurmctld(locks);
	return running;
}

/* Why the node cannot be taken from the job; NULL: it can. */
static const char *obstacle(const rca_config_t *config, job_record_t *job, node_record_t *node)
{
	if (!job || !IS_JOB_RUNNING(job) || !job->node_bitmap)
		return "no such job is running";
	if (!node)
		return "no node has that name";
	if (!bit_test(job->node_bitmap, node->index))
		return "the job does not hold that node";
	if (bit_set_count(job->node_bitmap) < 2)
		return "it is the job's last node";
	if (job->het_job_id)
		return "parts of heterogeneous jobs keep their nodes";
	if (IS_JOB_CONFIGURING(job) || (job->details && job->details->prolog_running))
		return "busy: the job is being set up";
	if (!config->batch_host && job->batch_flag && !xstrcmp(job->batch_host, node->name))
		return "the batch script runs on that node (ReleaseBatchHost=no)";
	return NULL;
}

/* What scontrol does when it makes a job smaller, except that nothing is signalled on the node. */
static void take_out(job_record_t *job, node_record_t *node)
{
	job_pre_resize_acctg(job);
	excise_node_from_job(job, node);
	(void) gs_job_start(job);
	gres_ctld_job_build_details(job->gres_list_alloc, &job->gres_detail_cnt, &job->gres_detail_str,
				    &job->gres_used);
	job_post_resize_acctg(job);
	/* 22.05 leaves the node of a job with --exclusive marked as not to be shared. */
	if (job->details && job->details->share_res == 0) {
		if (node->no_share_job_cnt)
			node->no_share_job_cnt--;
		if (node->no_share_job_cnt == 0)
			bit_set(share_node_bitmap, node->index);
	}
	/* Without slurmdbd nobody clears this, and later updates of the job would be refused. */
	if (!slurm_with_slurmdbd())
		job->db_index = 0;
}

bool rca_release(const rca_config_t *config, const rca_message_t *message, char *answer, size_t room)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = WRITE_LOCK, .node = WRITE_LOCK, .part = READ_LOCK };
	const char *reason;
	node_record_t *node;
	job_record_t *job;
	int left = 0;

	lock_slurmctld(locks);
	job = job_list ? find_job_record(message->job_id) : NULL;
	node = find_node_record((char *) message->node);
	reason = obstacle(config, job, node);
	if (!reason) {
		/* First noted, then done: what is noted for nothing is harmless. */
		add_lent(job->job_id, job->start_time, node->name);
		save_lent();
		take_out(job, node);
		left = job->node_cnt;
	}
	unlock_slurmctld(locks);
	if (reason)
		snprintf(answer, room, "refused: job %u, node %s: %s", message->job_id, message->node, reason);
	else
		snprintf(answer, room, "ok: node %s is free for other jobs, job %u keeps %d", message->node,
			 message->job_id, left);
	return !reason;
}

void rca_schedule(void)
{
	queue_job_scheduler();
	schedule(true); /* queue_job_scheduler alone waits for a loop of one second */
}

/* --- What asking looks at. */

static bool waits_for_nodes(job_record_t *job)
{
	if (!IS_JOB_PENDING(job) || !job->priority || !job->details || !job->part_ptr || IS_JOB_COMPLETING(job))
		return false;
	if (job->details->begin_time > time(NULL) || job->array_recs)
		return false;
	return job->state_reason == WAIT_RESOURCES || job->state_reason == WAIT_PRIORITY ||
	       job->state_reason == WAIT_NO_REASON;
}

static int first_waiting(void *item, void *arg)
{
	job_record_t *job = item, **first = arg;

	if (waits_for_nodes(job) &&
	    (!*first || job->priority > (*first)->priority ||
	     (job->priority == (*first)->priority && job->job_id < (*first)->job_id)))
		*first = job;
	return 0;
}

void rca_queue_head(rca_head_t *head)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = READ_LOCK, .node = READ_LOCK, .part = READ_LOCK };
	job_record_t *first = NULL;

	*head = (rca_head_t) { 0 };
	lock_slurmctld(locks);
	if (job_list)
		list_for_each(job_list, first_waiting, &first);
	if (first && first->part_ptr->node_bitmap) {
		bitstr_t *idle = bit_copy(first->part_ptr->node_bitmap);
		uint32_t wanted = first->details->min_nodes;

		bit_and(idle, idle_node_bitmap);
		bit_and(idle, avail_node_bitmap);
		if (wanted > (uint32_t) bit_set_count(idle)) {
			head->waiting = first->job_id;
			head->lacks = wanted - (uint32_t) bit_set_count(idle);
			head->deadline = first->start_time > time(NULL) ? (double) first->start_time : 0.0;
		}
		FREE_NULL_BITMAP(idle);
	}
	unlock_slurmctld(locks);
}

double rca_harm(uint32_t job_id, uint32_t waiting)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = READ_LOCK, .node = READ_LOCK, .part = READ_LOCK };
	job_record_t *job, *head;
	double harm = -1.0;

	lock_slurmctld(locks);
	job = find_job_record(job_id);
	head = find_job_record(waiting);
	if (job && head && head->part_ptr && head->part_ptr->node_bitmap && IS_JOB_RUNNING(job) && job->node_bitmap &&
	    bit_set_count(job->node_bitmap) > 1 && bit_overlap_any(job->node_bitmap, head->part_ptr->node_bitmap)) {
		double left = difftime(job->end_time, time(NULL));
		harm = (left > 0 ? left : 0) * bit_set_count(job->node_bitmap);
	}
	unlock_slurmctld(locks);
	return harm;
}
