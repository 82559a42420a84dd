#include "message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sha256.h"

static const struct {
	const char *name;
	rca_kind_t kind;
} kinds[] = {
	{ "NodeIdle", RCA_NODE_IDLE },
	{ "Listening", RCA_LISTENING },
	{ "ReleaseAccepted", RCA_RELEASE_ACCEPTED },
	{ "ReleaseRejected", RCA_RELEASE_REJECTED },
	{ "JobCompleted", RCA_JOB_COMPLETED },
};

const char *rca_cut_line(char *line, size_t size, rca_line_t *parts)
{
	char *fields[3];
	char *next = line, *stop = line + size;

	if (memchr(line, '\0', size))
		return "a zero byte in the line";
	if (size && stop[-1] == '\n')
		stop--;
	*stop = '\0';
	for (int i = 0; i < 3; i++) {
		fields[i] = next;
		if (!(next = strchr(next, ' ')))
			return "not of the form: rca2 SCHEME PROOF BODY";
		*next++ = '\0';
	}
	if (strcmp(fields[0], "rca2"))
		return "not of the form: rca2 SCHEME PROOF BODY";
	parts->scheme = fields[1];
	parts->proof = fields[2];
	parts->body = next;
	parts->body_size = (size_t) (stop - next);
	return NULL;
}

bool rca_same_digest(const char *one, const char *other)
{
	unsigned char differ = 0;

	if (strlen(one) != RCA_HEX_DIGEST - 1 || strlen(other) != RCA_HEX_DIGEST - 1)
		return false;
	for (int i = 0; i < RCA_HEX_DIGEST - 1; i++)
		differ |= (unsigned char) (one[i] ^ other[i]);
	return differ == 0;
}

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t' || *at == '\r')
		at++;
	return at;
}

/* Read a text in quotes: printable ASCII without escapes, since no name needs others. */
static const char *read_text(const char *at, char *text, size_t room)
{
	size_t size = 0;

	if (*at++ != '"')
		return NULL;
	for (; *at != '"'; at++) {
		if (*at < 0x20 || *at > 0x7e || *at == '\\' || size + 1 >= room)
			return NULL;
		text[size++] = *at;
	}
	text[size] = '\0';
	return at + 1;
}

static bool is_name(const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

	/* Nothing begins with a dash: it could be taken for an option. */
	if (!*text || !strchr(letters, *text))
		return false;
	for (; *text; text++)
		if (!strchr(letters, *text) && !strchr(".:/-", *text))
			return false;
	return true;
}

static bool read_whole(const char *text, uint32_t *number)
{
	char *end;
	unsigned long long value;

	if (strspn(text, "0123456789") != strlen(text) || !*text || strlen(text) > 10)
		return false;
	value = strtoull(text, &end, 10);
	if (value > UINT32_MAX)
		return false;
	*number = (uint32_t) value;
	return true;
}

/* What a message has of: each key once, and those that its kind needs. */
enum { TYPE = 1, JOB = 2, NODE = 4, NODES = 8, REASON = 16, REQUEST = 32, TIME = 64, NONCE = 128 };

static const unsigned needed[] = {
	[RCA_NODE_IDLE] = NODE,
	[RCA_LISTENING] = 0,
	[RCA_RELEASE_ACCEPTED] = NODES | REQUEST,
	[RCA_RELEASE_REJECTED] = REASON | REQUEST,
	[RCA_JOB_COMPLETED] = 0,
};

static const char *take_text(const char *key, const char *text, rca_message_t *message, unsigned *seen)
{
	unsigned bit = 0;

	if (!strcmp(key, "type")) {
		bit = TYPE;
		size_t i = 0;
		while (i < sizeof(kinds) / sizeof(*kinds) && strcmp(kinds[i].name, text))
			i++;
		if (i == sizeof(kinds) / sizeof(*kinds))
			return "the type is none that an application sends";
		message->kind = kinds[i].kind;
	} else if (!strcmp(key, "job")) {
		bit = JOB;
		if (!read_whole(text, &message->job_id) || !message->job_id)
			return "job is no job id";
	} else if (!strcmp(key, "node")) {
		bit = NODE;
		if (!is_name(text) || strlen(text) >= RCA_NAME)
			return "node is no name";
		strcpy(message->node, text);
	} else if (!strcmp(key, "nodes")) {
		bit = NODES;
		strcpy(message->nodes, text);
	} else if (!strcmp(key, "reason")) {
		bit = REASON;
		strcpy(message->reason, text);
	} else if (!strcmp(key, "nonce")) {
		bit = NONCE;
		if (strlen(text) != RCA_NONCE - 1 || strspn(text, "0123456789abcdef") != RCA_NONCE - 1)
			return "nonce is not 32 hexadecimal digits";
		strcpy(message->nonce, text);
	}
	if (*seen & bit)
		return "a key stands twice";
	*seen |= bit;
	return NULL;
}

static const char *take_number(const char *key, double number, rca_message_t *message, unsigned *seen)
{
	unsigned bit = 0;

	if (!strcmp(key, "time")) {
		bit = TIME;
		if (!(number >= 0.0 && number < 1e12))
			return "time is no number of seconds since 1970";
		message->time = number;
	} else if (!strcmp(key, "request")) {
		bit = REQUEST;
		if (!(number >= 0.0 && number <= UINT32_MAX) || floor(number) != number)
			return "request is no number of a request";
		message->request = (uint32_t) number;
	}
	if (*seen & bit)
		return "a key stands twice";
	*seen |= bit;
	return NULL;
}

static const char *read_pair(const char **at, rca_message_t *message, unsigned *seen)
{
	char key[32], text[RCA_TEXT];
	const char *next = read_text(skip_blanks(*at), key, sizeof(key));
	char *end;
	double number;

	if (!next || *(next = skip_blanks(next)) != ':')
		return "the body is no flat JSON object";
	next = skip_blanks(next + 1);
	if (*next == '"') {
		if (!(next = read_text(next, text, sizeof(text))))
			return "the body has a text with escapes, or one that is too long";
		*at = next;
		return take_text(key, text, message, seen);
	}
	if (!strchr("-0123456789", *next) || !*next || (next[0] == '0' && strchr("xX", next[1]) && next[1]))
		return "the body has a value that is neither a text nor a number";
	number = strtod(next, &end);
	if (end == next)
		return "the body is no flat JSON object";
	*at = end;
	return take_number(key, number, message, seen);
}

const char *rca_read_message(const char *body, size_t size, rca_message_t *message)
{
	const unsigned always = TYPE | JOB | TIME | NONCE;
	const char *at, *reason;
	unsigned seen = 0;

	memset(message, 0, sizeof(*message));
	if (strlen(body) != size)
		return "a zero byte in the body";
	at = skip_blanks(body);
	if (*at != '{')
		return "the body is no flat JSON object";
	do {
		at++;
		if ((reason = read_pair(&at, message, &seen)))
			return reason;
		at = skip_blanks(at);
	} while (*at == ',');
	if (*at != '}' || *skip_blanks(at + 1))
		return "the body is no flat JSON object";
	if ((seen & always) != always || (seen & needed[message->kind]) != needed[message->kind])
		return "the body lacks a key that its type needs";
	return NULL;
}
