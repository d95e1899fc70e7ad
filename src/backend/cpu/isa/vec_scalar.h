// Vectors of sixteen lanes, as the other instruction sets have them: kernels are written once over these operations, so
// every table computes the same bits. This file is what the operations mean.
//
// Included by ISA files, one of vec_*.h each; everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::cpu {
namespace {

struct F32 {
  float v[16];
};
struct I32 {
  int32_t v[16];
};

constexpr int kKeyTile = 1;  // accumulators that fit the register file: rows of a dot product, vectors of a sum
constexpr int kDimTile = 1;
constexpr int kMixRows = 1;
constexpr int kMixOuts = 4;

template <class Lane>
inline F32 make_f32(Lane lane) {
  F32 r;
  for (int i = 0; i < 16; ++i) {
    r.v[i] = lane(i);
  }
  return r;
}
template <class Lane>
inline I32 make_i32(Lane lane) {
  I32 r;
  for (int i = 0; i < 16; ++i) {
    r.v[i] = lane(i);
  }
  return r;
}
inline uint32_t word(int32_t x) { return static_cast<uint32_t>(x); }
inline int32_t integer(uint32_t x) { return static_cast<int32_t>(x); }

inline F32 set1(float x) {
  return make_f32([&](int) { return x; });
}
inline I32 set1(int32_t x) {
  return make_i32([&](int) { return x; });
}

// With a count: the first n lanes; the others are loaded as zero, and not stored.
inline F32 load(const float* p, int n) {
  return make_f32([&](int i) { return i < n ? p[i] : 0.0F; });
}
inline F32 load(const float* p) { return load(p, 16); }
inline I32 load(const int32_t* p) {
  return make_i32([&](int i) { return p[i]; });
}
inline void store(float* p, F32 a, int n) {
  for (int i = 0; i < n; ++i) {
    p[i] = a.v[i];
  }
}
inline void store(float* p, F32 a) { store(p, a, 16); }
// Lanes to and from unsigned bytes and 16-bit words; lanes hold what fits.
inline I32 load_u8(const void* p, int n) {
  return make_i32([&](int i) { return i < n ? static_cast<const uint8_t*>(p)[i] : 0; });
}
inline void store_u8(void* p, I32 a, int n) {
  for (int i = 0; i < n; ++i) {
    static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(a.v[i]);
  }
}
inline I32 load_u16(const void* p, int n) {
  return make_i32([&](int i) {
    uint16_t x = 0;
    if (i < n) {
      __builtin_memcpy(&x, static_cast<const uint8_t*>(p) + 2 * i, sizeof x);
    }
    return static_cast<int32_t>(x);
  });
}
inline void store_u16(void* p, I32 a, int n) {
  for (int i = 0; i < n; ++i) {
    const auto x = static_cast<uint16_t>(a.v[i]);
    __builtin_memcpy(static_cast<uint8_t*>(p) + 2 * i, &x, sizeof x);
  }
}

inline F32 operator+(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32 operator-(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32 operator*(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32 operator/(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] / b.v[i]; });
}
// a b + c, rounded once.
inline F32 fma(F32 a, F32 b, F32 c) {
  return make_f32([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
// b where either is NaN.
inline F32 max(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 min(F32 a, F32 b) {
  return make_f32([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 square_root(F32 a) {
  return make_f32([&](int i) { return __builtin_sqrtf(a.v[i]); });
}

inline I32 operator+(I32 a, I32 b) {
  return make_i32([&](int i) { return integer(word(a.v[i]) + word(b.v[i])); });
}
inline I32 operator-(I32 a, I32 b) {
  return make_i32([&](int i) { return integer(word(a.v[i]) - word(b.v[i])); });
}
inline I32 operator&(I32 a, I32 b) {
  return make_i32([&](int i) { return a.v[i] & b.v[i]; });
}
inline I32 operator|(I32 a, I32 b) {
  return make_i32([&](int i) { return a.v[i] | b.v[i]; });
}
inline I32 max(I32 a, I32 b) {
  return make_i32([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
template <int kBits>
inline I32 shift_left(I32 a) {
  return make_i32([&](int i) { return integer(word(a.v[i]) << kBits); });
}
// Zeros enter from the left.
template <int kBits>
inline I32 shift_right(I32 a) {
  return make_i32([&](int i) { return integer(word(a.v[i]) >> kBits); });
}

inline I32 bits(F32 a) {
  I32 r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}
inline F32 from_bits(I32 a) {
  F32 r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}
inline F32 to_float(I32 a) {
  return make_f32([&](int i) { return static_cast<float>(a.v[i]); });
}
// Towards zero; lanes hold what an int32 can.
inline I32 to_int(F32 a) {
  return make_i32([&](int i) { return static_cast<int32_t>(a.v[i]); });
}

// Per lane a < b ? yes : no.
inline F32 select_less(F32 a, F32 b, F32 yes, F32 no) {
  return make_f32([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
inline I32 select_less(I32 a, I32 b, I32 yes, I32 no) {
  return make_i32([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
// `in` in lanes [first, last), `out` in the others.
inline F32 select_lanes(int first, int last, F32 in, F32 out) {
  return make_f32([&](int i) { return first <= i && i < last ? in.v[i] : out.v[i]; });
}

// Lane i becomes lane i ^ kDistance, kDistance 1, 2, 4 or 8.
template <int kDistance>
inline F32 swap(F32 a) {
  return make_f32([&](int i) { return a.v[i ^ kDistance]; });
}
inline float first_lane(F32 a) { return a.v[0]; }

// Lane n: the sum of a[n]'s lanes, as sum_lanes() adds them.
inline F32 sum_each(const F32* a) {
  return make_f32([&](int n) {
    F32 s = a[n];
    s = s + swap<8>(s);
    s = s + swap<4>(s);
    s = s + swap<2>(s);
    s = s + swap<1>(s);
    return s.v[0];
  });
}

// Lane i: sum + the four unsigned bytes of `quad` times b[4 i .. 4 i + 3], in integers.
inline I32 dot4(I32 sum, int32_t quad, const int8_t* b) {
  return make_i32([&](int i) {
    int32_t s = sum.v[i];
    for (int j = 0; j < 4; ++j) {
      s += static_cast<int32_t>(word(quad) >> (8 * j) & 0xFFU) * b[4 * i + j];
    }
    return s;
  });
}

// 16 bytes, low nibble first, to the 32 values that `table` has for them.
inline void unpack_nibbles(const void* packed, const int8_t* table, uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t byte = static_cast<const uint8_t*>(packed)[i];
    out[2 * i] = static_cast<uint8_t>(table[byte & 0xFU]);
    out[2 * i + 1] = static_cast<uint8_t>(table[byte >> 4]);
  }
}

}  // namespace
}  // namespace fathom::cpu
