// Copies of a GPU's memory to the host beside its runs. Where the device has memory for it, the copies are
// made on the device first, in the order of the runs (4 GB in a few ms), and cross the bus by a stream of
// their own while further runs go on; otherwise they cross between two runs, at the speed of the bus. Both
// need pinned memory; where the system gives none, the bytes go through small pinned pieces between two runs,
// which is slower, and is said. Used by cuda_device.cpp.
#pragma once

#include "executor/cuda/cuda_copies.h"
#include "executor/runtime/downloads.h"

namespace genesis {

class CudaDownloads final : public Downloads {
 public:
  // `runs` is the stream of the device's runs, `copies` goes through it; both must outlive this.
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
  std::shared_ptr<const void> pinned_;  // null: `host_` is not
  int64_t room_ = -1;                   // of `host_`
  std::shared_ptr<std::byte> staging_;  // on the device
  int64_t staging_room_ = 0;
  cuda::Stream side_;
  cuda::Event taken_;    // the copies on the device are made
  cuda::Event arrived_;  // those on the host
};

}  // namespace genesis
