/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104), so that the plugin needs no library of its own. */
#ifndef RCA_SHA256_H
#define RCA_SHA256_H

#include <stddef.h>

#define RCA_HEX_DIGEST 65 /* 64 digits and the end */

void rca_sha256_hex(const void *data, size_t size, char hex[RCA_HEX_DIGEST]);
void rca_hmac_hex(const void *key, size_t key_size, const void *data, size_t size, char hex[RCA_HEX_DIGEST]);

#endif
