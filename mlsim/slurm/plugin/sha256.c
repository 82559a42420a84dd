#include "sha256.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 64
#define DIGEST 32

typedef struct {
	uint32_t state[8];
	uint8_t block[BLOCK];
	uint64_t bytes;
} hash_t;

static const uint32_t rounds[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int bits)
{
	return (word >> bits) | (word << (32 - bits));
}

static void add_block(hash_t *hash)
{
	uint32_t w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t) hash->block[4 * i] << 24 | (uint32_t) hash->block[4 * i + 1] << 16 |
		       (uint32_t) hash->block[4 * i + 2] << 8 | hash->block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ (a >> 3)) +
		       (rotated(b, 17) ^ rotated(b, 19) ^ (b >> 10));
	}
	memcpy(s, hash->state, sizeof(s));
	for (int i = 0; i < 64; i++) {
		uint32_t one = s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) +
			       ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[i] + w[i];
		uint32_t two = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) +
			       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		hash->state[i] += s[i];
}

static void begin(hash_t *hash)
{
	static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(hash->state, first, sizeof(first));
	hash->bytes = 0;
}

static void add(hash_t *hash, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++) {
		hash->block[hash->bytes++ % BLOCK] = bytes[i];
		if (hash->bytes % BLOCK == 0)
			add_block(hash);
	}
}

static void end(hash_t *hash, uint8_t digest[DIGEST])
{
	uint64_t bits = hash->bytes * 8;
	uint8_t length[8];

	add(hash, "\x80", 1);
	while (hash->bytes % BLOCK != BLOCK - 8)
		add(hash, "", 1);
	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t) (bits >> (56 - 8 * i));
	add(hash, length, sizeof(length));
	for (int i = 0; i < DIGEST; i++)
		digest[i] = (uint8_t) (hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void to_hex(const uint8_t digest[DIGEST], char hex[RCA_HEX_DIGEST])
{
	for (int i = 0; i < DIGEST; i++) {
		hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
	}
	hex[RCA_HEX_DIGEST - 1] = '\0';
}

void rca_sha256_hex(const void *data, size_t size, char hex[RCA_HEX_DIGEST])
{
	uint8_t digest[DIGEST];
	hash_t hash;

	begin(&hash);
	add(&hash, data, size);
	end(&hash, digest);
	to_hex(digest, hex);
}

void rca_hmac_hex(const void *key, size_t key_size, const void *data, size_t size, char hex[RCA_HEX_DIGEST])
{
	uint8_t pad[BLOCK] = { 0 }, digest[DIGEST];
	hash_t hash;

	if (key_size > BLOCK) {
		begin(&hash);
		add(&hash, key, key_size);
		end(&hash, pad);
	} else
		memcpy(pad, key, key_size);
	for (int i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36;
	begin(&hash);
	add(&hash, pad, BLOCK);
	add(&hash, data, size);
	end(&hash, digest);
	for (int i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	begin(&hash);
	add(&hash, pad, BLOCK);
	add(&hash, digest, DIGEST);
	end(&hash, digest);
	to_hex(digest, hex);
}
