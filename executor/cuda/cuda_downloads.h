// Copies GPU memory to the host while runs go on, by one of three methods:
// - If the device has free memory, the bytes are first copied on the device between two runs (4 GB in a few ms) and then cross
//   the bus on a separate stream during further runs.
// - If the device has no free memory, the bytes cross the bus between two runs, which wait for it.
// - If the system provides no pinned memory, which both methods need, the bytes go through small pinned buffers between two runs.
//   This is the slowest method; a warning is logged.
#pragma once

#include "executor/cuda/cuda_copies.h"
#include "executor/runtime/downloads.h"

namespace genesis {

class CudaDownloads final : public Downloads {
 public:
  // `runs` is the stream of the device's runs, and `copies` copies on it; both must outlive this object.
  CudaDownloads(int device, cudaStream_t runs, CudaCopies& copies);
  ~CudaDownloads() override;

  bool reserve(int64_t bytes, int64_t more) override;
  void take(const std::vector<MemoryPart>& parts) override;
  const std::byte* wait() override;

 private:
  bool stage(int64_t bytes);
  void copy_to_host(int64_t offset, const std::byte* from, int64_t bytes, cudaStream_t stream);
  void make_current() const;

  int device_;
  cudaStream_t runs_;
  CudaCopies& copies_;
  std::shared_ptr<std::byte> host_;
  std::shared_ptr<const void> pinned_;  // keeps `host_` pinned; null: it is not pinned
  int64_t host_bytes_ = -1;             // bytes of `host_`
  std::shared_ptr<std::byte> staging_;  // on the device
  int64_t staging_bytes_ = 0;
  cuda::Stream side_;
  cuda::Event taken_;    // the copies on the device are complete
  cuda::Event arrived_;  // the copies to the host are complete
};

}  // namespace genesis
