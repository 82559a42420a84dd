/* Who sent a line: the owner of the job, by munge, or by the secret that the job was submitted with. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "src/common/log.h"
#include "src/common/xhash.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"

#include "rca.h"
#include "sha256.h"

#define VARIABLE "MLSIM_RCA_SECRET="
#define SHORTEST_SECRET 16
#define KEPT_MS 60000

/* --- Secrets of jobs, as they stand in the environments that the controller keeps for batch jobs. What was
 * read is kept for a minute. */

typedef struct {
	uint32_t job_id;
	char *secret; /* NULL: it has none */
	int64_t read_at;
} secret_t;

static xhash_t *secrets;

static void secret_key(void *item, const char **key, uint32_t *size)
{
	*key = (const char *) &((secret_t *) item)->job_id;
	*size = sizeof(uint32_t);
}

static void secret_free(void *item)
{
	secret_t *one = item;

	if (one->secret)
		memset(one->secret, 0, strlen(one->secret));
	xfree(one->secret);
	xfree(one);
}

/* Read the secret from the job's environment; the caller holds the job lock. */
static char *secret_of(job_record_t *job)
{
	char **environment, *found = NULL;
	uint32_t size = 0;

	if (!job->batch_flag || !(environment = get_job_env(job, &size)))
		return NULL;
	for (uint32_t i = 0; i < size; i++)
		if (!xstrncmp(environment[i], VARIABLE, strlen(VARIABLE)))
			found = xstrdup(environment[i] + strlen(VARIABLE));
	xfree(environment[0]);
	xfree(environment);
	if (found && strlen(found) < SHORTEST_SECRET)
		xfree(found);
	return found;
}

/* The secret of a running job; NULL if there is no such job, or it has none. */
static const secret_t *find_secret(uint32_t job_id, const char **reason)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = READ_LOCK };
	job_record_t *job;
	secret_t *one;

	if (!secrets)
		secrets = xhash_init(secret_key, secret_free);
	if ((one = xhash_get(secrets, (char *) &job_id, sizeof(job_id))))
		return one;
	one = NULL;
	lock_slurmctld(locks);
	job = job_list ? find_job_record(job_id) : NULL;
	if (!job || !IS_JOB_RUNNING(job))
		*reason = "no such job is running";
	else if (!job->batch_flag)
		*reason = "the job is no batch job, so that it has no secret; it needs Auth=munge";
	else {
		one = xmalloc(sizeof(*one));
		one->job_id = job_id;
		one->secret = secret_of(job);
		one->read_at = rca_clock_ms();
		xhash_add(secrets, one);
	}
	unlock_slurmctld(locks);
	return one;
}

/* --- munge, loaded where it is configured: sites without it need none of its files. */

enum { MUNGE_SUCCESS = 0, MUNGE_REPLAYED = 17, MUNGE_OPTION_SOCKET = 8 };

static void *munge_library;
static void *munge_context;
static int (*munge_decode)(const char *, void *, void **, int *, uid_t *, gid_t *);
static const char *(*munge_strerror)(int);

static const char *load_munge(const char *socket_path)
{
	void *(*create)(void);
	int (*set)(void *, int, ...);

	if (munge_context)
		return NULL;
	if (!munge_library && !(munge_library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL)))
		return "munge is configured, but libmunge.so.2 cannot be loaded on the controller";
	create = dlsym(munge_library, "munge_ctx_create");
	set = dlsym(munge_library, "munge_ctx_set");
	munge_decode = dlsym(munge_library, "munge_decode");
	munge_strerror = dlsym(munge_library, "munge_strerror");
	if (!create || !set || !munge_decode || !munge_strerror || !(munge_context = create()))
		return "libmunge.so.2 lacks functions that the plugin needs";
	if (socket_path)
		set(munge_context, MUNGE_OPTION_SOCKET, socket_path);
	return NULL;
}

static const char *check_owner(uint32_t job_id, uid_t uid)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = READ_LOCK };
	const char *reason = NULL;
	job_record_t *job;

	lock_slurmctld(locks);
	job = job_list ? find_job_record(job_id) : NULL;
	if (!job || !IS_JOB_RUNNING(job))
		reason = "no such job is running";
	else if (job->user_id != uid)
		reason = "the job is another user's";
	unlock_slurmctld(locks);
	return reason;
}

static const char *check_munge(const rca_config_t *config, const rca_line_t *line, uint32_t job_id,
			       bool *sent_before)
{
	char digest[RCA_HEX_DIGEST];
	const char *reason = load_munge(config->munge_socket);
	void *payload = NULL;
	int size = 0, code;
	uid_t uid = (uid_t) -1;
	gid_t gid;
	bool same;

	if (reason)
		return reason;
	code = munge_decode(line->proof, munge_context, &payload, &size, &uid, &gid);
	rca_sha256_hex(line->body, line->body_size, digest);
	same = size == RCA_HEX_DIGEST - 1 && payload && !memcmp(payload, digest, size);
	free(payload);
	*sent_before = code == MUNGE_REPLAYED;
	if (code != MUNGE_SUCCESS)
		return *sent_before ? "sent a second time" : munge_strerror(code);
	return same ? check_owner(job_id, uid) : "the credential is of another message";
}

static const char *check_secret(const rca_line_t *line, uint32_t job_id)
{
	char digest[RCA_HEX_DIGEST];
	const char *reason = NULL;
	const secret_t *one = find_secret(job_id, &reason);

	if (!one)
		return reason;
	if (!one->secret)
		return "the job was submitted without a MLSIM_RCA_SECRET of 16 characters or more";
	rca_hmac_hex(one->secret, strlen(one->secret), line->body, line->body_size, digest);
	return rca_same_digest(digest, line->proof) ? NULL : "wrong MAC: forged, or another job's secret";
}

/* --- Nonces, so that a line that is sent again is refused for as long as its time is accepted. */

typedef struct {
	char key[RCA_NONCE + 11]; /* job and nonce: nobody can use up a nonce of another's job */
	int64_t forget_at;
} nonce_t;

#define MOST_NONCES 1000000

static xhash_t *nonces;
static int64_t swept_at;

static void nonce_key(void *item, const char **key, uint32_t *size)
{
	*key = ((nonce_t *) item)->key;
	*size = strlen(*key);
}

static void nonce_free(void *item)
{
	xfree(item);
}

static const char *check_nonce(const rca_config_t *config, const rca_message_t *message, bool *sent_before)
{
	double age = rca_now() - message->time;
	nonce_t *one, key;

	if (age > config->max_age || -age > config->max_age)
		return "its time is too far from the controller's";
	if (!nonces)
		nonces = xhash_init(nonce_key, nonce_free);
	snprintf(key.key, sizeof(key.key), "%u:%s", message->job_id, message->nonce);
	if ((*sent_before = xhash_get_str(nonces, key.key) != NULL))
		return "sent a second time";
	if (xhash_count(nonces) >= MOST_NONCES)
		return "busy: too many messages";
	one = xmalloc(sizeof(*one));
	*one = key;
	one->forget_at = rca_clock_ms() + 2000 * (int64_t) config->max_age;
	xhash_add(nonces, one);
	return NULL;
}

/* --- What the others call. */

const char *rca_authenticate(const rca_config_t *config, const rca_line_t *line, const rca_message_t *message,
			     bool *sent_before)
{
	const char *reason;

	*sent_before = false;
	if (xstrcmp(line->scheme, config->munge ? "munge" : "hmac"))
		return config->munge ? "the controller takes munge credentials alone"
				     : "the controller takes MACs by the job's secret alone";
	reason = config->munge ? check_munge(config, line, message->job_id, sent_before)
			       : check_secret(line, message->job_id);
	return reason ? reason : check_nonce(config, message, sent_before);
}

char *rca_sign(uint32_t job_id, const char *body)
{
	char digest[RCA_HEX_DIGEST];
	const char *reason = NULL;
	const secret_t *one = find_secret(job_id, &reason);

	if (!one || !one->secret)
		return NULL;
	rca_hmac_hex(one->secret, strlen(one->secret), body, strlen(body), digest);
	return xstrdup_printf("rca2 hmac %s %s\n", digest, body);
}

typedef struct {
	int64_t now;
	List old;
} sweep_t;

static void note_old_nonce(void *item, void *arg)
{
	if (((nonce_t *) item)->forget_at < ((sweep_t *) arg)->now)
		list_append(((sweep_t *) arg)->old, item);
}

static void note_old_secret(void *item, void *arg)
{
	if (((secret_t *) item)->read_at + KEPT_MS < ((sweep_t *) arg)->now)
		list_append(((sweep_t *) arg)->old, item);
}

void rca_auth_tick(void)
{
	sweep_t sweep = { .now = rca_clock_ms() };
	void *item;

	if (sweep.now < swept_at + 10000)
		return;
	swept_at = sweep.now;
	sweep.old = list_create(NULL);
	if (nonces) {
		xhash_walk(nonces, note_old_nonce, &sweep);
		while ((item = list_pop(sweep.old)))
			xhash_delete_str(nonces, ((nonce_t *) item)->key);
	}
	if (secrets) {
		xhash_walk(secrets, note_old_secret, &sweep);
		while ((item = list_pop(sweep.old)))
			xhash_delete(secrets, (char *) &((secret_t *) item)->job_id, sizeof(uint32_t));
	}
	FREE_NULL_LIST(sweep.old);
}

void rca_auth_free(void)
{
	if (nonces)
		xhash_free(nonces);
	if (secrets)
		xhash_free(secrets);
	nonces = secrets = NULL;
}
