/* One thread, non-blocking sockets, poll: a slow or silent client has a deadline of its own and stops nobody. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/common/log.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"

#include "rca.h"

#define CLOSING_MS 1000
#define MOST_DISCARDED 65536
#define RETRY_MS 10000
#define LOG_LINES 20 /* of refusals, in LOG_MS */
#define LOG_MS 10000

typedef struct {
	int fd; /* -1: closed, to be removed */
	struct sockaddr_storage peer;
	int64_t deadline; /* of the next line, or of the other side's closing; 0: none */
	uint32_t job_id;  /* whose application listens here; 0: none */
	bool closing;     /* answered; what still comes is thrown away */
	size_t size;      /* bytes of the line so far; while closing: thrown away */
	char line[RCA_LONGEST + 1];
} connection_t;

static connection_t **open_ones;
static int count, room;
static int listener = -1;
static bool released_some;
static struct {
	int64_t since;
	unsigned lines, left_out;
} refusals;

static void log_refusal(const char *answer)
{
	int64_t now = rca_clock_ms();

	if (now > refusals.since + LOG_MS) {
		if (refusals.left_out)
			info("rca: %u more were refused", refusals.left_out);
		refusals.since = now;
		refusals.lines = refusals.left_out = 0;
	}
	if (refusals.lines++ < LOG_LINES)
		info("rca: %s", answer);
	else
		refusals.left_out++;
}

static void drop(connection_t *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

/* Answers are short and each connection gets few: one that does not fit into the socket's buffer is lost. */
static bool send_text(connection_t *connection, const char *text)
{
	size_t size = strlen(text);

	return connection->fd >= 0 &&
	       send(connection->fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t) size;
}

/* Close after an answer; not at once, since that would reset a connection with unread bytes. */
static void finish(connection_t *connection)
{
	shutdown(connection->fd, SHUT_WR);
	connection->closing = true;
	connection->job_id = 0;
	connection->size = 0;
	connection->deadline = rca_clock_ms() + CLOSING_MS;
}

static void answer(connection_t *connection, const char *text)
{
	char line[RCA_TEXT * 2];

	if (!xstrncmp(text, "refused", 7)) {
		log_refusal(text);
		rca_record("refused", "\"answer\":\"%s\"", text);
	}
	snprintf(line, sizeof(line), "%s\n", text);
	if (!send_text(connection, line))
		drop(connection);
	else if (!connection->job_id)
		finish(connection);
}

static void refuse(connection_t *connection, const char *reason)
{
	char text[RCA_TEXT];

	snprintf(text, sizeof(text), "refused: %s", reason);
	answer(connection, text);
}

static void listen_for(const rca_config_t *config, connection_t *connection, uint32_t job_id)
{
	for (int i = 0; i < count; i++)
		if (open_ones[i] != connection && open_ones[i]->job_id == job_id)
			drop(open_ones[i]); /* one for each job, the latest */
	connection->job_id = job_id;
	connection->deadline = 0;
	answer(connection, config->ask ? "ok: requests will come here" : "ok: nobody asks here (Ask=never)");
}

static void release(const rca_config_t *config, connection_t *connection, const rca_message_t *message)
{
	char text[RCA_TEXT * 2];

	if (rca_release(config, message, text, sizeof(text))) {
		released_some = true;
		info("rca: %s", text);
		rca_record("released", "\"job\":%u,\"node\":\"%s\",\"sent\":%.6f", message->job_id, message->node,
			   message->time);
		rca_ask_released(message->job_id, message->node);
	}
	answer(connection, text);
}

static void take_line(const rca_config_t *config, connection_t *connection, size_t size)
{
	rca_message_t message;
	bool sent_before;
	rca_line_t line;
	const char *reason = rca_cut_line(connection->line, size, &line);

	if (!reason)
		reason = rca_read_message(line.body, line.body_size, &message);
	if (!reason)
		reason = rca_authenticate(config, &line, &message, &sent_before);
	if (reason)
		refuse(connection, reason);
	else if (message.kind == RCA_NODE_IDLE)
		release(config, connection, &message);
	else if (message.kind == RCA_LISTENING)
		listen_for(config, connection, message.job_id);
	else if (message.kind == RCA_JOB_COMPLETED) {
		rca_record("completed", "\"job\":%u", message.job_id);
		answer(connection, "ok: noted");
	} else {
		rca_ask_answered(&message);
		answer(connection, "ok: noted");
	}
}

static void read_lines(const rca_config_t *config, connection_t *connection)
{
	while (connection->fd >= 0 && !connection->closing) {
		char *end;
		ssize_t got = recv(connection->fd, connection->line + connection->size,
				   RCA_LONGEST - connection->size, MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			if (got == 0 && !connection->job_id && connection->size)
				refuse(connection, "the line did not end");
			drop(connection);
			return;
		}
		connection->size += (size_t) got;
		while (!connection->closing && connection->fd >= 0 &&
		       (end = memchr(connection->line, '\n', connection->size))) {
			size_t size = (size_t) (end - connection->line) + 1, rest = connection->size - size;
			char kept[RCA_LONGEST];

			memcpy(kept, connection->line + size, rest);
			take_line(config, connection, size);
			memcpy(connection->line, kept, rest);
			connection->size = connection->closing ? 0 : rest;
		}
		if (!connection->closing && connection->size >= RCA_LONGEST) {
			connection->job_id = 0;
			refuse(connection, "longer than 4096 bytes");
		}
	}
}

/* What comes after the answer is thrown away, but not for ever. */
static void discard(connection_t *connection)
{
	ssize_t got = recv(connection->fd, connection->line, RCA_LONGEST, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	connection->size += got > 0 ? (size_t) got : 0;
	if (got <= 0 || connection->size > MOST_DISCARDED)
		drop(connection);
}

static bool same_host(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	if (one->ss_family != other->ss_family)
		return false;
	if (one->ss_family == AF_INET)
		return ((const struct sockaddr_in *) one)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *) other)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *) one)->sin6_addr,
		       &((const struct sockaddr_in6 *) other)->sin6_addr, sizeof(struct in6_addr));
}

/* Make room for one more: the oldest that sent no line, of the host that has most of these, is dropped. */
static void make_room(const rca_config_t *config)
{
	connection_t *dropped = NULL;
	int silent = 0, most = 0;

	for (int i = 0; i < count; i++)
		silent += open_ones[i]->fd >= 0 && !open_ones[i]->job_id;
	if (silent < config->max_connections)
		return;
	for (int i = 0; i < count; i++) {
		int same = 0;
		if (open_ones[i]->fd < 0 || open_ones[i]->job_id)
			continue;
		for (int k = 0; k < count; k++)
			same += open_ones[k]->fd >= 0 && !open_ones[k]->job_id &&
				same_host(&open_ones[k]->peer, &open_ones[i]->peer);
		if (same > most) { /* in order of arrival: the first of these is the oldest */
			most = same;
			dropped = open_ones[i];
		}
	}
	if (dropped && !dropped->closing)
		send_text(dropped, "refused: busy: silent, and others came\n");
	if (dropped)
		drop(dropped);
}

static void accept_all(const rca_config_t *config)
{
	int one = 1;

	while (true) {
		struct sockaddr_storage peer = { 0 };
		socklen_t size = sizeof(peer);
		int fd = accept4(listener, (struct sockaddr *) &peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
		connection_t *connection;

		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				log_refusal("a connection could not be accepted");
			return;
		}
		make_room(config);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		connection = xmalloc(sizeof(*connection));
		connection->fd = fd;
		connection->peer = peer;
		connection->deadline = rca_clock_ms() + config->read_ms;
		if (count == room) {
			room = room ? 2 * room : 64;
			xrealloc(open_ones, room * sizeof(*open_ones));
		}
		open_ones[count++] = connection;
		read_lines(config, connection); /* who has something to say is never silent */
	}
}

static void remove_dropped(void)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		if (open_ones[i]->fd >= 0)
			open_ones[kept++] = open_ones[i];
		else
			xfree(open_ones[i]);
	}
	count = kept;
}

static void check_deadlines(void)
{
	int64_t now = rca_clock_ms();

	for (int i = 0; i < count; i++) {
		connection_t *connection = open_ones[i];
		if (connection->fd < 0 || !connection->deadline || now < connection->deadline)
			continue;
		if (connection->closing)
			drop(connection);
		else
			refuse(connection, "no whole line came in time");
	}
}

bool rca_send_to(uint32_t job_id, const char *line)
{
	for (int i = 0; i < count; i++) {
		if (open_ones[i]->fd < 0 || open_ones[i]->job_id != job_id)
			continue;
		if (send_text(open_ones[i], line))
			return true;
		drop(open_ones[i]);
	}
	return false;
}

void rca_each_listener(void (*call)(uint32_t job_id, void *context), void *context)
{
	for (int i = 0; i < count; i++)
		if (open_ones[i]->fd >= 0 && open_ones[i]->job_id)
			call(open_ones[i]->job_id, context);
}

static bool open_listener(const rca_config_t *config)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(config->port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(config->port) };
	bool is_six = inet_pton(AF_INET, config->address, &four.sin_addr) != 1;
	int one = 1;

	if (is_six)
		inet_pton(AF_INET6, config->address, &six.sin6_addr);
	listener = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener >= 0) {
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (!bind(listener, is_six ? (struct sockaddr *) &six : (struct sockaddr *) &four,
			  is_six ? sizeof(six) : sizeof(four)) &&
		    !listen(listener, 1024)) {
			info("rca: listening on %s:%u", config->address, config->port);
			return true;
		}
	}
	error("rca: %s:%u: cannot listen, tried again in %d s: %m", config->address, config->port, RETRY_MS / 1000);
	if (listener >= 0)
		close(listener);
	listener = -1;
	return false;
}

static int wait_for_something(int wake, struct pollfd **polled, int timeout)
{
	int kept = count; /* those that come while they are looked at are looked at next time */

	xrealloc(*polled, (kept + 2) * sizeof(**polled));
	(*polled)[0] = (struct pollfd) { .fd = wake, .events = POLLIN };
	(*polled)[1] = (struct pollfd) { .fd = listener, .events = POLLIN };
	for (int i = 0; i < kept; i++)
		(*polled)[i + 2] = (struct pollfd) { .fd = open_ones[i]->fd, .events = POLLIN };
	poll(*polled, kept + 2, timeout);
	return kept;
}

void rca_serve(const rca_config_t *config, int wake)
{
	struct pollfd *polled = NULL;
	int64_t retry = 0;
	bool some_lent = true;

	while (true) {
		int before;

		if (listener < 0 && rca_clock_ms() >= retry && !open_listener(config))
			retry = rca_clock_ms() + RETRY_MS;
		before = wait_for_something(wake, &polled, some_lent || config->ask ? 200 : 1000);
		if (polled[0].revents)
			break;
		for (int i = 0; i < before; i++) {
			if (open_ones[i]->fd < 0 || !polled[i + 2].revents)
				continue;
			if (open_ones[i]->closing)
				discard(open_ones[i]);
			else
				read_lines(config, open_ones[i]);
		}
		if (listener >= 0 && polled[1].revents)
			accept_all(config);
		if (released_some)
			rca_schedule(); /* once for all that came together */
		released_some = false;
		check_deadlines();
		some_lent = rca_clean_lent();
		rca_ask_tick(config);
		rca_auth_tick();
		remove_dropped();
	}
	for (int i = 0; i < count; i++)
		drop(open_ones[i]);
	remove_dropped();
	xfree(open_ones);
	room = 0;
	xfree(polled);
	if (listener >= 0)
		close(listener);
	listener = -1;
}
