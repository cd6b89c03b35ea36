#include "backends/cuda/peaks.h"

#include <algorithm>

#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/gemm_list.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

constexpr int kRepeats = 10, kRounds = 3;

// Returns the seconds of one `start()`, the best of several rounds.
template <class Start>
double seconds_of(cudaStream_t stream, const Start& start) {
  const Event begin = make_event(true), end = make_event(true);
  start();  // excludes one-time setup from the measurement
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    check(cudaEventRecord(begin.get(), stream), "measuring a device");
    for (int i = 0; i < kRepeats; ++i) start();
    check(cudaEventRecord(end.get(), stream), "measuring a device");
    wait_for(end.get(), "measuring a device");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "measuring a device");
    const double seconds = 1e-3 * static_cast<double>(ms) / kRepeats;
    best = best == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

double copy_gbps(int device, cudaStream_t stream) {
  const int64_t bytes = std::min<int64_t>(256 << 20, free_memory_bytes() / 4);
  const auto from = allocate(device, bytes), to = allocate(device, bytes);
  const double seconds = seconds_of(stream, [&] {
    check(cudaMemcpyAsync(to.get(), from.get(), static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
          "measuring a device");
  });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

double product_gflops(int device, cudaStream_t stream, DType dtype, int64_t n) {
  const GemmProblem problem{
      .in = dtype, .out = dtype, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .transpose_b = true};
  const int64_t bytes = n * n * static_cast<int64_t>(size_of(dtype));
  const auto a = allocate(device, bytes), b = allocate(device, bytes), c = allocate(device, bytes),
             workspace = allocate(device, gemm_workspace_bytes(problem));
  for (const auto& operand : {a, b}) fill_with_noise(operand.get(), dtype, n * n, stream);
  const auto gemm = create_gemm(problem);
  const double seconds = seconds_of(stream, [&] {
    gemm->run({.a = a.get(), .b = b.get(), .c = c.get(), .workspace = workspace.get(), .stream = stream});
  });
  check(cudaGetLastError(), "measuring a device");
  return 2e-9 * static_cast<double>(n * n * n) / seconds;
}

}  // namespace

Peaks measure_peaks() {
  const int device = current_device();
  const Stream stream = make_stream();
  return {.f32_gflops = product_gflops(device, stream.get(), DType::f32, 4096),
          .bf16_gflops = product_gflops(device, stream.get(), DType::bf16, 8192),
          .copy_gbps = copy_gbps(device, stream.get())};
}

}  // namespace genesis::cuda
