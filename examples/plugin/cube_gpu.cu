// The GPU's kernel of cube_gpu.cpp. It includes nothing of Genesis, whose headers nvcc need not read.
#include <cstdint>

static __global__ void cube(const float* x, float* y, int64_t n, float scale) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = scale * x[i] * x[i] * x[i];
}

void launch_cube(const float* x, float* y, int64_t n, float scale, void* stream) {
  if (n > 0) cube<<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n, scale);
}
