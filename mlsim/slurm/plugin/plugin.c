/* RCA for an unmodified slurmctld (SlurmctldPlugstack=rca): running jobs give back nodes that have no more work.
 *
 * Nothing here may end the controller: what cannot be used is logged, and the plugin does nothing then.
 */
#include "src/common/slurm_xlator.h" /* must be first */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "slurm/slurm_errno.h"
#include "src/common/log.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/slurmctld.h"
#include "src/slurmctld/slurmctld_plugstack.h"

#include "rca.h"

const char plugin_name[] = "Resourceful coordination (RCA) of mlsim";
const char plugin_type[] = "slurmctld/rca";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

static rca_config_t config;
static pthread_t thread;
static bool runs;
static int wake[2] = { -1, -1 };

static void *run(void *arg)
{
	sigset_t all;

	(void) arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL); /* signals are for the controller's own threads */
	rca_serve(&config, wake[0]);
	return NULL;
}

extern int init(void)
{
	if (!rca_config_read(&config)) {
		error("rca: not active: its configuration cannot be used");
		return SLURM_SUCCESS;
	}
	if (pipe2(wake, O_CLOEXEC)) {
		error("rca: not active: %m");
		return SLURM_SUCCESS;
	}
	rca_records_open(config.records);
	rca_lent_load();
	runs = !pthread_create(&thread, NULL, run, NULL);
	if (!runs)
		error("rca: not active: no thread: %m");
	return SLURM_SUCCESS;
}

extern int fini(void)
{
	if (runs) {
		close(wake[1]);
		pthread_join(thread, NULL);
		close(wake[0]);
		rca_ask_free();
		rca_auth_free();
		rca_lent_free();
		rca_records_close();
	}
	runs = false;
	rca_config_free(&config);
	return SLURM_SUCCESS;
}

static void add_pair(List list, const char *name, char *value)
{
	config_key_pair_t *pair = xmalloc(sizeof(*pair));

	pair->name = xstrdup(name);
	pair->value = value;
	list_append(list, pair);
}

/* What `scontrol show config` prints. */
extern void slurmctld_plugstack_p_get_config(config_plugin_params_t *p)
{
	List list = p->key_pairs;

	xstrcat(p->name, plugin_type);
	add_pair(list, "Active", xstrdup(runs ? "yes" : "no"));
	if (!runs)
		return;
	add_pair(list, "Ask", xstrdup(config.ask ? "head-of-queue" : "never"));
	add_pair(list, "Auth", xstrdup(config.munge ? "munge" : "secret"));
	add_pair(list, "Listen", xstrdup_printf("%s:%u", config.address, config.port));
	add_pair(list, "MaxConnections", xstrdup_printf("%d", config.max_connections));
	add_pair(list, "ReleaseBatchHost", xstrdup(config.batch_host ? "yes" : "no"));
}
