/* A file with a line of JSON for everything that was done, asked or refused. */
#include "src/common/slurm_xlator.h" /* must be first */

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "src/common/log.h"

#include "rca.h"

static FILE *file;
static bool failed;

double rca_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

int64_t rca_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void rca_records_open(const char *path)
{
	failed = false;
	if (path && !(file = fopen(path, "ae")))
		error("rca: %s: cannot be written: %m", path);
}

void rca_records_close(void)
{
	if (file)
		fclose(file);
	file = NULL;
}

void rca_record(const char *event, const char *format, ...)
{
	va_list arguments;

	if (!file)
		return;
	fprintf(file, "{\"time\":%.6f,\"event\":\"%s\",", rca_now(), event);
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	fputs("}\n", file);
	if (fflush(file) && !failed) {
		failed = true; /* once: a full disk must not fill the log as well */
		error("rca: the records cannot be written: %m");
	}
}
