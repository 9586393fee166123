# Included by the compiled kernels that check batches: the checksum CRC-32C.

cdef extern from *:
    """
    /* CRC-32C. The processor's instruction has a latency of three cycles and a throughput of one,
       so long inputs are cut into three lanes that run side by side; a lane's CRC is moved past the
       bytes behind it by a table that multiplies by x^(8*LANE) modulo the polynomial. */
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #define OTTLA_CRC_TARGET __attribute__((target("sse4.2")))
    #define OTTLA_CRC_HARDWARE() __builtin_cpu_supports("sse4.2")
    #define OTTLA_CRC8(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)
    #define OTTLA_CRC64(crc, word) _mm_crc32_u64(crc, word)
    #elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define OTTLA_CRC_TARGET
    #define OTTLA_CRC_HARDWARE() 1
    #define OTTLA_CRC8(crc, byte) __crc32cb((uint32_t)(crc), byte)
    #define OTTLA_CRC64(crc, word) __crc32cd((uint32_t)(crc), word)
    #else
    #define OTTLA_CRC_TARGET
    #define OTTLA_CRC_HARDWARE() 0
    #define OTTLA_CRC8(crc, byte) (crc)
    #define OTTLA_CRC64(crc, word) (crc)
    #endif
    #define OTTLA_LANE 1024

    static uint32_t ottla_crc_table[8][256];
    static uint32_t ottla_crc_shift[4][256];

    static uint32_t ottla_crc_zeros(uint32_t crc, int bytes) {
        for (; bytes > 0; bytes--) crc = (crc >> 8) ^ ottla_crc_table[0][crc & 0xFF];
        return crc;
    }

    static void ottla_crc_prepare(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
            ottla_crc_table[0][byte] = crc;
        }
        for (int table = 1; table < 8; table++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t crc = ottla_crc_table[table - 1][byte];
                ottla_crc_table[table][byte] = (crc >> 8) ^ ottla_crc_table[0][crc & 0xFF];
            }
        /* A CRC register is linear: what a lane of zeros makes of it is the sum over its bytes. */
        for (int part = 0; part < 4; part++)
            for (uint32_t byte = 0; byte < 256; byte++)
                ottla_crc_shift[part][byte] = ottla_crc_zeros(byte << (8 * part), OTTLA_LANE);
    }

    static inline uint32_t ottla_crc_past_lane(uint32_t crc) {
        return ottla_crc_shift[0][crc & 0xFF] ^ ottla_crc_shift[1][crc >> 8 & 0xFF]
             ^ ottla_crc_shift[2][crc >> 16 & 0xFF] ^ ottla_crc_shift[3][crc >> 24];
    }

    static uint32_t ottla_crc_software(uint32_t crc, const uint8_t *at, size_t size) {
        uint32_t (*t)[256] = ottla_crc_table;
        for (; size >= 8; at += 8, size -= 8) {
            uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16
                                  | (uint32_t)at[3] << 24);
            crc = t[7][low & 0xFF] ^ t[6][low >> 8 & 0xFF] ^ t[5][low >> 16 & 0xFF] ^ t[4][low >> 24]
                ^ t[3][at[4]] ^ t[2][at[5]] ^ t[1][at[6]] ^ t[0][at[7]];
        }
        for (; size > 0; at++, size--) crc = (crc >> 8) ^ t[0][(crc ^ *at) & 0xFF];
        return crc;
    }

    OTTLA_CRC_TARGET
    static uint32_t ottla_crc_hardware(uint32_t start, const uint8_t *at, size_t size) {
        uint64_t crc = start, second, third, word;
        while (size >= 3 * OTTLA_LANE) {
            second = third = 0;
            for (int i = 0; i < OTTLA_LANE; i += 8) {
                memcpy(&word, at + i, 8); crc = OTTLA_CRC64(crc, word);
                memcpy(&word, at + OTTLA_LANE + i, 8); second = OTTLA_CRC64(second, word);
                memcpy(&word, at + 2 * OTTLA_LANE + i, 8); third = OTTLA_CRC64(third, word);
            }
            crc = ottla_crc_past_lane((uint32_t)crc) ^ second;
            crc = ottla_crc_past_lane((uint32_t)crc) ^ third;
            at += 3 * OTTLA_LANE;
            size -= 3 * OTTLA_LANE;
        }
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&word, at, 8);
            crc = OTTLA_CRC64(crc, word);
        }
        for (; size > 0; at++, size--) crc = OTTLA_CRC8(crc, *at);
        return (uint32_t)crc;
    }

    static uint32_t (*ottla_crc_chosen)(uint32_t, const uint8_t *, size_t) = 0;

    static uint32_t ottla_crc32c(uint32_t start, const uint8_t *at, size_t size) {
        if (!ottla_crc_chosen) {
            ottla_crc_prepare();
            ottla_crc_chosen = OTTLA_CRC_HARDWARE() ? ottla_crc_hardware : ottla_crc_software;
        }
        return ottla_crc_chosen(start ^ 0xFFFFFFFFu, at, size) ^ 0xFFFFFFFFu;
    }

    /* The product of two polynomials modulo that of the CRC; bit 31 is the coefficient of x^0. */
    static uint32_t ottla_crc_product(uint32_t a, uint32_t b) {
        uint32_t product = 0;
        for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
            if (a & bit) product ^= b;
            b = b & 1 ? (b >> 1) ^ 0x82F63B78u : b >> 1;
        }
        return product;
    }

    static uint32_t ottla_crc32c_shifted(uint32_t crc, size_t bytes) {
        uint32_t power = 1u << 23; /* x^8, squared once for each bit of the count */
        for (; bytes; bytes >>= 1, power = ottla_crc_product(power, power))
            if (bytes & 1) crc = ottla_crc_product(crc, power);
        return crc;
    }

    static uint32_t ottla_crc32c_software(uint32_t start, const uint8_t *at, size_t size) {
        ottla_crc32c(0, at, 0);
        return ottla_crc_software(start ^ 0xFFFFFFFFu, at, size) ^ 0xFFFFFFFFu;
    }
    """
    uint32_t ottla_crc32c(uint32_t start, const uint8_t *at, size_t size) nogil
    uint32_t ottla_crc32c_software(uint32_t start, const uint8_t *at, size_t size) nogil
    uint32_t ottla_crc32c_shifted(uint32_t crc, size_t bytes) nogil

# The first call makes the tables, before there may be several at the same time.
ottla_crc32c(0, NULL, 0)
