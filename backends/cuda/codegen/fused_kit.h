// Building blocks of generated kernels besides formulas: conversions between memory types and lane types, packs of 16
// bytes, reductions of rows, and the report of bad data. This is text for NVRTC, after formula_vocabulary.h and
// formulas.h.

namespace genesis_device {

// --- conversions from memory types to lane types and back

inline float lane(float x) { return x; }
inline double lane(double x) { return x; }
inline bool lane(bool x) { return x; }
inline Integer lane(signed char x) { return Integer(int64(x)); }
inline Integer lane(unsigned char x) { return Integer(int64(x)); }
inline Integer lane(short x) { return Integer(int64(x)); }
inline Integer lane(int x) { return Integer(int64(x)); }
inline Integer lane(int64 x) { return Integer(x); }

#ifdef __CUDA_ARCH__
inline float lane(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
inline float lane(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
#endif

template <class To>
struct Convert;
template <>
struct Convert<float> {
  static float from(float x) { return x; }
  static float from(Rough x) { return x.v; }
  static float from(double x) { return static_cast<float>(x); }
  static float from(Integer x) { return static_cast<float>(x.v); }
  static float from(bool x) { return x ? 1.0f : 0.0f; }
};
template <>
struct Convert<Rough> {
  template <class From>
  static Rough from(From x) {
    return Rough(Convert<float>::from(x));
  }
};
template <>
struct Convert<double> {
  static double from(float x) { return x; }
  static double from(Rough x) { return x.v; }
  static double from(double x) { return x; }
  static double from(Integer x) { return static_cast<double>(x.v); }
  static double from(bool x) { return x ? 1.0 : 0.0; }
};
template <>
struct Convert<Integer> {
  static Integer from(float x) { return Integer(static_cast<double>(x)); }
  static Integer from(Rough x) { return Integer(static_cast<double>(x.v)); }
  static Integer from(double x) { return Integer(x); }
  static Integer from(Integer x) { return x; }
  static Integer from(bool x) { return Integer(x ? 1 : 0); }
};
template <>
struct Convert<bool> {
  static bool from(float x) { return x != 0.0f; }
  static bool from(Rough x) { return x.v != 0.0f; }
  static bool from(double x) { return x != 0.0; }
  static bool from(Integer x) { return x.v != 0; }
  static bool from(bool x) { return x; }
};
template <class To, class From>
inline To to(From x) {
  return Convert<To>::from(x);
}

// Truncates x to the integer type Narrow.
template <class Narrow>
inline Integer cut(Integer x) {
  return Integer(int64(static_cast<Narrow>(x.v)));
}

// --- packs

template <int kBytes>
struct Access;
template <>
struct Access<16> {
  using type = uint4;
};
template <>
struct Access<8> {
  using type = uint2;
};
template <>
struct Access<4> {
  using type = unsigned;
};
template <>
struct Access<2> {
  using type = unsigned short;
};
template <>
struct Access<1> {
  using type = unsigned char;
};

// N elements, read or written in one access of up to 16 bytes.
template <class T, int N>
union Pack {
  typename Access<sizeof(T) * N>::type bits;
  T at[N];
};

template <class T, int N>
inline void fetch(Pack<T, N>& pack, const T* from) {
  pack.bits = *reinterpret_cast<const typename Access<sizeof(T) * N>::type*>(from);
}

// Rounds each value to nearest, ties to even.
template <class T>
struct Rounder {
  template <class Lane, int N>
  static void round(Pack<T, N>& pack, const Lane (&x)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = static_cast<T>(value(x[j]));
  }
  static int64 value(Integer x) { return x.v; }
  template <class Lane>
  static Lane value(Lane x) {
    return x;
  }
};

#ifdef __CUDA_ARCH__
inline unsigned pair_of(bf16, float low, float high) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
inline unsigned pair_of(f16, float low, float high) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
#endif
// Rounds two values at a time, as the chip's instruction does.
template <class T>
struct HalfRounder {
  template <int N>
  static void round(Pack<T, N>& pack, const float (&x)[N]) {
#pragma unroll
    for (int j = 0; j + 1 < N; j += 2) {
      const unsigned both = pair_of(T(), x[j], x[j + 1]);
      pack.at[j].bits = static_cast<unsigned short>(both & 0xffff);
      pack.at[j + 1].bits = static_cast<unsigned short>(both >> 16);
    }
    if (N % 2 == 1) pack.at[N - 1].bits = static_cast<unsigned short>(pair_of(T(), x[N - 1], 0.0f) & 0xffff);
  }
};
template <>
struct Rounder<bf16> : HalfRounder<bf16> {};
template <>
struct Rounder<f16> : HalfRounder<f16> {};

template <class T, class Lane, int N>
inline void put(T* where_to, const Lane (&x)[N]) {
  Pack<T, N> pack;
  Rounder<T>::round(pack, x);
  *reinterpret_cast<typename Access<sizeof(T) * N>::type*>(where_to) = pack.bits;
}

// --- reductions of rows: join(a, so_far) combines an element with the result so far; in Max and Min NaN wins

template <class T>
struct Limits;
template <>
struct Limits<float> {
  static float low() { return -static_cast<float>(1e300 * 1e300); }
  static float high() { return static_cast<float>(1e300 * 1e300); }
};
template <>
struct Limits<double> {
  static double low() { return -(1e300 * 1e300); }
  static double high() { return 1e300 * 1e300; }
};
template <>
struct Limits<Integer> {
  static Integer low() { return Integer(-0x7fffffffffffffffll - 1); }
  static Integer high() { return Integer(0x7fffffffffffffffll); }
};
template <>
struct Limits<bool> {
  static bool low() { return false; }
  static bool high() { return true; }
};

template <class T>
struct Sum {
  static T identity() { return T(0); }
  static T join(T a, T so_far) { return a + so_far; }
};
template <class T>
struct Max {
  static T identity() { return Limits<T>::low(); }
  static T join(T a, T so_far) { return a > so_far || a != a ? a : so_far; }
};
template <class T>
struct Min {
  static T identity() { return Limits<T>::high(); }
  static T join(T a, T so_far) { return a < so_far || a != a ? a : so_far; }
};

inline float from_lane(float x, int offset) { return __shfl_xor_sync(0xffffffffu, x, offset); }
inline double from_lane(double x, int offset) { return __shfl_xor_sync(0xffffffffu, x, offset); }
inline Integer from_lane(Integer x, int offset) {
  return Integer(int64(__shfl_xor_sync(0xffffffffu, x.v, offset)));
}
inline bool from_lane(bool x, int offset) { return __shfl_xor_sync(0xffffffffu, int(x), offset) != 0; }

// Reduces over groups of kLanes lanes; all of them get the same bits.
template <class Op, int kLanes, class T>
inline T reduce_lanes(T x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x = Op::join(from_lane(x, offset), x);
  return x;
}
// Reduces over the kThreads threads that share a row. `partial` has an element for each warp; each call needs its own
// array.
template <class Op, int kThreads, class T>
inline T reduce_row(T x, T* partial) {
  if (kThreads <= 32) return reduce_lanes<Op, (kThreads < 32 ? kThreads : 32)>(x);
  constexpr int kWarps = kThreads <= 32 ? 1 : kThreads / 32;
  x = reduce_lanes<Op, 32>(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  return reduce_lanes<Op, kWarps>(partial[threadIdx.x % kWarps]);
}

// --- counterparts of backends/cuda/runtime/launch.h

inline void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct DeviceFault {
  int set, step;
  int64 value, limit;
};
struct FaultReport {
  DeviceFault* fault;
  int step;
};
// Reports an integer division by 0. The first report wins.
inline void check_divisor(const FaultReport& report, Integer b) {
  if (b.v != 0 || atomicCAS(&report.fault->set, 0, 2) != 0) return;
  report.fault->step = report.step;
}

}  // namespace genesis_device
