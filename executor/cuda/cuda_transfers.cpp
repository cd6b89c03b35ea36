#include "executor/cuda/cuda_transfers.h"

#include <algorithm>
#include <cstring>

#include "executor/cuda/cuda_copies.h"
#include "executor/runtime/device_tensors.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

using cuda::check;

constexpr int64_t kAlignment = 256;
constexpr int kMaxMoves = 8;                   // a graph is captured again so often before inputs are copied
constexpr int64_t kMaxOutputBytes = 64 << 20;  // limit, since pinned memory is taken from the whole machine

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

InputBuffers::InputBuffers(const Plan& plan, int device) : plan_(plan), device_index_(device) {
  for (const PlanPort& port : plan.inputs) {
    offsets_.push_back(bytes_);
    bytes_ += aligned(port.type.bytes());
  }
  if (bytes_ > 0) device_ = cuda::allocate(device, bytes_);
}

std::vector<std::byte*> InputBuffers::addresses(const std::vector<std::byte*>& host) {
  std::vector<std::byte*> at;
  for (size_t i = 0; i < offsets_.size(); ++i) {
    // Kernels load vectors, so they need the alignment of a buffer of our own.
    const bool in_place = moves_ < kMaxMoves && i < host.size() &&
                          reinterpret_cast<uintptr_t>(host[i]) % kAlignment == 0 && gpu_of(host[i]);
    at.push_back(in_place ? host[i] : device_.get() + offsets_[i]);
  }
  if (!read_at_.empty() && at != read_at_) ++moves_;
  return read_at_ = std::move(at);
}

bool InputBuffers::some_on_gpu(const std::vector<std::byte*>& given) const {
  return std::ranges::any_of(given, [](const std::byte* data) { return gpu_of(data).has_value(); });
}

// Copies each input that is not read in place, from wherever it is.
void InputBuffers::bring_each(const std::vector<std::byte*>& given, cudaStream_t stream) {
  follow_default_stream(stream);
  const auto is_upload = [&](size_t i) { return plan_.inputs[i].type.bytes() > 0 && !gpu_of(given[i]); };
  Pinned* pinned = nullptr;
  for (size_t i = 0; i < given.size(); ++i)
    if (is_upload(i) && !pinned) pinned = &fill(given);
  for (size_t i = 0; i < given.size(); ++i) {
    if (read_at_[i] == given[i] || plan_.inputs[i].type.bytes() == 0) continue;
    const bool is_here = is_upload(i);
    check(cudaMemcpyAsync(read_at_[i], is_here ? pinned->memory.get() + offsets_[i] : given[i],
                          static_cast<size_t>(plan_.inputs[i].type.bytes()),
                          is_here ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice, stream),
          "bringing inputs to the device");
  }
  if (!pinned) return;
  check(cudaEventRecord(pinned->uploaded.get(), stream), "bringing inputs to the device");
  pinned->busy = pinned->awaited = true;
}

void InputBuffers::bring(const std::vector<std::byte*>& host, cudaStream_t stream) {
  if (bytes_ == 0) return;
  if (staged_ == host) {
    check(cudaStreamWaitEvent(stream, staged_through_->uploaded.get()), "waiting for staged inputs");
    check(cudaMemcpyAsync(device_.get(), staging_.get(), static_cast<size_t>(bytes_),
                          cudaMemcpyDeviceToDevice, stream),
          "taking staged inputs");
    check(cudaEventRecord(taken_.get(), stream), "taking staged inputs");
    staged_through_->awaited = true;
  } else if (some_on_gpu(host)) {
    bring_each(host, stream);
  } else {
    Pinned& from = fill(host);
    upload(from, device_.get(), stream);
    from.awaited = true;
  }
  staged_.clear();
}

void InputBuffers::stage(const std::vector<std::byte*>& host) {
  if (bytes_ == 0 || some_on_gpu(host)) return;
  if (!staging_) {
    staging_ = cuda::allocate(device_index_, bytes_);
    side_ = cuda::make_stream();
    taken_ = cuda::make_event(false);
  }
  staged_through_ = &fill(host);
  check(cudaStreamWaitEvent(side_.get(), taken_.get()), "staging inputs");
  upload(*staged_through_, staging_.get(), side_.get());
  staged_ = host;
}

void InputBuffers::runs_are_done() {
  for (Pinned& pinned : pinned_)
    if (pinned.awaited) pinned.busy = pinned.awaited = false;
}

InputBuffers::Pinned& InputBuffers::fill(const std::vector<std::byte*>& host) {
  Pinned& to = free_one();
  for (size_t i = 0; i < host.size(); ++i)
    if (const int64_t bytes = plan_.inputs[i].type.bytes(); bytes > 0 && !gpu_of(host[i]))
      std::memcpy(to.memory.get() + offsets_[i], host[i], static_cast<size_t>(bytes));
  return to;
}

InputBuffers::Pinned& InputBuffers::free_one() {
  Pinned& chosen = pinned_[0].busy ? pinned_[1] : pinned_[0];
  if (!chosen.memory) {
    chosen.memory = cuda::allocate_pinned(bytes_);
    chosen.uploaded = cuda::make_event(false);
  }
  // Both are busy only if the caller starts runs without ever waiting for them, or stages batches that it never runs.
  if (chosen.busy) cuda::wait_for(chosen.uploaded.get(), "waiting for an upload");
  chosen.busy = chosen.awaited = false;
  return chosen;
}

void InputBuffers::upload(Pinned& from, std::byte* to, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from.memory.get(), static_cast<size_t>(bytes_), cudaMemcpyHostToDevice, stream),
        "uploading inputs");
  check(cudaEventRecord(from.uploaded.get(), stream), "uploading inputs");
  from.busy = true;
}

OutputBuffers::OutputBuffers(const Plan& plan, bool leaves_outputs) : plan_(plan) {
  for (const PlanPort& port : plan.outputs) {
    const int64_t size = aligned(port.type.bytes());
    const bool here =
        !leaves_outputs && port.buffer.space != Space::kInput && size > 0 && bytes_ + size <= kMaxOutputBytes;
    places_.push_back(here ? bytes_ : -1);
    if (here) bytes_ += size;
  }
  place_of_next();
}

bool OutputBuffers::has_all() const {
  return std::none_of(places_.begin(), places_.end(), [](int64_t place) { return place < 0; });
}

void OutputBuffers::fetch(const PlanMemory& memory, cudaStream_t stream, bool leaves_outputs) {
  RunPlace& to = place_of_next();
  for (size_t i = 0; i < places_.size(); ++i)
    if (places_[i] >= 0 && !leaves_outputs)
      check(
          cudaMemcpyAsync(to.memory.get() + places_[i], memory.resolve(plan_.outputs[i].buffer),
                          static_cast<size_t>(plan_.outputs[i].type.bytes()), cudaMemcpyDeviceToHost, stream),
          "fetching outputs");
  check(cudaEventRecord(to.fetched.get(), stream), "fetching outputs");
  newest_ = static_cast<size_t>(&to - places_of_run_.data());
  ++under_way_;
}

OutputBuffers::RunPlace& OutputBuffers::place_of_next() {
  RunPlace& place = places_of_run_[under_way_ > 0 ? 1 - newest_ : newest_];
  if (place.fetched) return place;
  if (bytes_ > 0) place.memory = cuda::allocate_pinned(bytes_);
  place.fetched = cuda::make_event(false);
  return place;
}

void OutputBuffers::wait(cudaStream_t stream) {
  if (!are_under_way()) return cuda::wait_for(stream, "running");
  done_ = --under_way_ > 0 ? 1 - newest_ : newest_;
  cuda::wait_for(places_of_run_[done_].fetched.get(), "running");
}

}  // namespace genesis
