/* rca.conf: one KEY=VALUE a line, '#' begins a comment. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/common/log.h"
#include "src/common/read_config.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"

#include "rca.h"

static bool read_number(const char *text, int least, int most, int *number)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!*text || *end || value < least || value > most)
		return false;
	*number = (int) value;
	return true;
}

static bool read_switch(const char *text, bool *value)
{
	if (xstrcasecmp(text, "yes") && xstrcasecmp(text, "no"))
		return false;
	*value = !xstrcasecmp(text, "yes");
	return true;
}

static bool read_address(const char *text, rca_config_t *config)
{
	const char *colon = strrchr(text, ':');
	struct in6_addr six;
	struct in_addr four;
	char *address;
	int port;

	if (!colon || !read_number(colon + 1, 1, 65535, &port))
		return false;
	address = xstrndup(text, colon - text);
	if (address[0] == '[' && address[strlen(address) - 1] == ']') {
		memmove(address, address + 1, strlen(address));
		address[strlen(address) - 1] = '\0';
	}
	if (inet_pton(AF_INET, address, &four) != 1 && inet_pton(AF_INET6, address, &six) != 1) {
		xfree(address);
		return false;
	}
	xfree(config->address);
	config->address = address;
	config->port = (uint16_t) port;
	return true;
}

static bool read_choice(const char *text, const char *no, const char *yes, bool *value)
{
	if (xstrcmp(text, no) && xstrcmp(text, yes))
		return false;
	*value = !xstrcmp(text, yes);
	return true;
}

/* Return NULL if the value was taken; else what is allowed. */
static const char *take(rca_config_t *config, const char *key, const char *value)
{
	if (!xstrcasecmp(key, "Listen"))
		return read_address(value, config) ? NULL : "ADDRESS:PORT, the address in numbers";
	if (!xstrcasecmp(key, "Auth"))
		return read_choice(value, "secret", "munge", &config->munge) ? NULL : "secret or munge";
	if (!xstrcasecmp(key, "Ask"))
		return read_choice(value, "never", "head-of-queue", &config->ask) ? NULL : "never or head-of-queue";
	if (!xstrcasecmp(key, "AskInterval"))
		return read_number(value, 50, 3600000, &config->ask_interval_ms) ? NULL : "50 to 3600000 ms";
	if (!xstrcasecmp(key, "AnswerTimeout"))
		return read_number(value, 50, 3600000, &config->answer_ms) ? NULL : "50 to 3600000 ms";
	if (!xstrcasecmp(key, "ReadTimeout"))
		return read_number(value, 50, 600000, &config->read_ms) ? NULL : "50 to 600000 ms";
	if (!xstrcasecmp(key, "MaxConnections"))
		return read_number(value, 1, 65536, &config->max_connections) ? NULL : "1 to 65536";
	if (!xstrcasecmp(key, "MaxAge"))
		return read_number(value, 1, 86400, &config->max_age) ? NULL : "1 to 86400 s";
	if (!xstrcasecmp(key, "ReleaseBatchHost"))
		return read_switch(value, &config->batch_host) ? NULL : "yes or no";
	if (!xstrcasecmp(key, "MungeSocket") || !xstrcasecmp(key, "Records")) {
		char **place = !xstrcasecmp(key, "Records") ? &config->records : &config->munge_socket;
		if (value[0] != '/')
			return "an absolute path";
		xfree(*place);
		*place = xstrdup(value);
		return NULL;
	}
	return "the keys Listen, Auth, MungeSocket, Ask, AskInterval, AnswerTimeout, ReadTimeout, "
	       "MaxConnections, MaxAge, ReleaseBatchHost and Records";
}

static char *trimmed(char *text)
{
	char *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return text;
}

bool rca_config_read(rca_config_t *config)
{
	char *path = get_extra_conf_path("rca.conf");
	char *line = NULL;
	bool good = true;
	size_t room = 0;
	int number = 0;
	FILE *file;

	*config = (rca_config_t) { .address = xstrdup("127.0.0.1"), .port = 26800, .munge = true,
				   .ask_interval_ms = 1000, .answer_ms = 5000, .read_ms = 5000,
				   .max_connections = 256, .max_age = 300 };
	if (!(file = fopen(path, "r"))) {
		error("rca: %s: cannot be read: %m", path);
		good = false;
	}
	while (file && getline(&line, &room, file) >= 0) {
		char *text, *value;
		const char *allowed;

		number++;
		line[strcspn(line, "#")] = '\0';
		if (!*(text = trimmed(line)))
			continue;
		if (!(value = strchr(text, '='))) {
			error("rca: %s:%d: not of the form KEY=VALUE", path, number);
			good = false;
			continue;
		}
		*value++ = '\0';
		if ((allowed = take(config, trimmed(text), trimmed(value)))) {
			error("rca: %s:%d: %s=%s; allowed: %s", path, number, trimmed(text), trimmed(value), allowed);
			good = false;
		}
	}
	if (file)
		fclose(file);
	free(line);
	xfree(path);
	return good;
}

void rca_config_free(rca_config_t *config)
{
	xfree(config->address);
	xfree(config->munge_socket);
	xfree(config->records);
}
