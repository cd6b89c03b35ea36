// Tensors of the C interface, and DLPack in both directions.
#include <algorithm>
#include <mutex>
#include <set>

#include "bindings/c/handles.h"
#include "executor/runtime/device.h"
#include "executor/runtime/device_tensors.h"

namespace genesis::c {
namespace {

// Device types. Memory that CUDA manages can be read by the host, as pinned memory can.
constexpr int32_t kDlHost = 1, kDlCuda = 2, kDlPinned = 3, kDlManaged = 13;
constexpr uint64_t kReadOnly = 1;
constexpr int64_t kNothing[1] = {0};  // the address of tensors without elements

struct DlType {
  uint8_t code, bits;
  DType dtype;
};
constexpr DlType kDlTypes[] = {{2, 32, DType::f32},   {2, 64, DType::f64}, {2, 16, DType::f16},
                               {4, 16, DType::bf16},  {0, 8, DType::i8},   {1, 8, DType::u8},
                               {0, 16, DType::i16},   {0, 32, DType::i32}, {0, 64, DType::i64},
                               {6, 8, DType::boolean}};

DType dtype_of_dl(const gn_dl_tensor& tensor) {
  for (const DlType& row : kDlTypes)
    if (row.code == tensor.type_code && row.bits == tensor.type_bits && tensor.type_lanes == 1)
      return row.dtype;
  fail(
      "a DLPack tensor has the type code {} with {} bits and {} lanes; expected real numbers of 16, 32 or 64 "
      "bits, "
      "bfloat16, integers of 8 to 64 bits, u8 or bool",
      tensor.type_code, tensor.type_bits, tensor.type_lanes);
}

TensorType checked_type(DType dtype, int32_t rank, const int64_t* sizes) {
  if (rank < 0 || rank > kMaxRank)
    throw BadArgument(fmt::format("rank is {}, expected 0 to {}", rank, kMaxRank));
  if (rank > 0) required(sizes, "sizes");
  for (int32_t i = 0; i < rank; ++i)
    if (sizes[i] < 0) throw BadArgument(fmt::format("sizes[{}] is {}, expected 0 or more", i, sizes[i]));
  TensorType type{dtype, rank == 0 ? Shape() : Shape::of({sizes, sizes + rank})};
  static_cast<void>(type.bytes());  // throws Error if the size overflows
  return type;
}

const std::byte* address(const TensorType& type, const void* data) {
  if (type.numel() == 0) return reinterpret_cast<const std::byte*>(kNothing);
  return reinterpret_cast<const std::byte*>(&required(static_cast<const char*>(data), "data"));
}

gn_tensor on_host(Tensor tensor, bool is_writable) {
  std::vector<int64_t> sizes = tensor.shape().sizes();
  return {std::move(tensor), std::move(sizes), is_writable};
}

bool is_dense(const gn_dl_tensor& tensor) {
  if (!tensor.strides) return true;
  int64_t expected = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Copies the elements of a tensor with strides in their order.
Tensor gathered(const TensorType& type, const gn_dl_tensor& from, const std::byte* data) {
  std::byte* to;
  Tensor result = Tensor::uninitialized(type, &to);
  const auto size = static_cast<int64_t>(size_of(type.dtype));
  std::vector<int64_t> index(static_cast<size_t>(from.ndim), 0);
  for (int64_t n = type.numel(); n > 0; --n, to += size) {
    int64_t offset = 0;
    for (int32_t i = 0; i < from.ndim; ++i) offset += index[static_cast<size_t>(i)] * from.strides[i];
    std::memcpy(to, data + offset * size, static_cast<size_t>(size));
    for (int32_t i = from.ndim - 1; i >= 0 && ++index[static_cast<size_t>(i)] == from.shape[i]; --i)
      index[static_cast<size_t>(i)] = 0;
  }
  return result;
}

// Throws Error if this build or this machine has no such GPU.
void check_gpu(int gpu) {
  static std::mutex mutex;
  static std::set<int> known;
  const std::lock_guard lock(mutex);
  if (known.contains(gpu)) return;
  with_context([&] { static_cast<void>(open_device(fmt::format("cuda:{}", gpu), 0)); },
               [&] { return fmt::format("while taking a DLPack tensor from the memory of GPU {}", gpu); });
  known.insert(gpu);
}

// `owner` deletes the foreign tensor.
gn_tensor taken(const gn_dl_tensor& from, std::shared_ptr<const void> owner) {
  const int32_t device = from.device_type;
  if (device != kDlHost && device != kDlCuda && device != kDlPinned && device != kDlManaged)
    fail(
        "a DLPack tensor is on a device of type {}, expected host memory or a GPU's of CUDA: copy it to the "
        "host "
        "first (x.cpu() in torch)",
        device);
  const TensorType type = checked_type(dtype_of_dl(from), from.ndim, from.shape);
  const std::byte* data = address(type, from.data);
  if (type.numel() == 0) return on_host(Tensor(type, nullptr, data), false);
  data += from.byte_offset;
  if (device == kDlCuda) {
    if (!is_dense(from))
      fail("a DLPack tensor on a GPU is not dense: make it so first (x.contiguous() in torch)");
    check_gpu(from.device_id);
    return on_gpu(tensor_on_gpu(type, std::move(owner), data, from.device_id), from.device_id, false);
  }
  const bool is_aligned = reinterpret_cast<uintptr_t>(data) % size_of(type.dtype) == 0;
  if (!is_dense(from)) return on_host(gathered(type, from, data), false);
  return on_host(is_aligned ? Tensor(type, std::move(owner), data) : Tensor::copy_of(type, data), false);
}

template <class Managed>
std::shared_ptr<const void> owner_of(Managed* managed) {
  return {managed, [](const Managed* it) {
            if (it->deleter) it->deleter(const_cast<Managed*>(it));
          }};
}

// A tensor that was given away, with all that its struct points to.
struct Given {
  gn_dl_managed managed{};
  Tensor tensor;
  std::vector<int64_t> sizes, strides;
};

void delete_given(gn_dl_managed* managed) { delete static_cast<Given*>(managed->manager_ctx); }

const DlType& dl_type_of(DType dtype) {
  return *std::ranges::find_if(kDlTypes, [&](const DlType& row) { return row.dtype == dtype; });
}

}  // namespace

DType dtype_of_number(int32_t number) {
  if (number < 0 || number >= kNumDTypes)
    throw BadArgument(fmt::format("dtype is {}, expected GN_F32 to GN_BOOL", number));
  return static_cast<DType>(number);
}

const Tensor& OnGpu::here() {
  const std::lock_guard lock(busy_);
  if (!here_)
    with_context(
        [&] {
          const std::shared_ptr<Device> device = open_device(fmt::format("cuda:{}", gpu_), 0);
          device->wait_for_default_stream();
          here_ = read_tensor(*device, there_.type(), there_.data());
        },
        [&] { return fmt::format("while copying a tensor from the memory of GPU {}", gpu_); });
  return *here_;
}

gn_tensor on_gpu(Tensor tensor, int gpu, bool is_writable) {
  gn_tensor made = on_host(std::move(tensor), is_writable);
  if (made.tensor.numel() > 0) made.on_gpu = std::make_shared<OnGpu>(made.tensor, gpu);
  return made;
}

gn_tensor* new_tensor(Tensor tensor, bool is_writable) {
  return new gn_tensor(on_host(std::move(tensor), is_writable));
}

gn_tensors* new_tensors(const NamedTensors& tensors) {
  auto made = std::make_unique<gn_tensors>();
  for (const auto& [name, tensor] : tensors) {
    made->names.push_back(name);
    made->tensors.push_back(on_host(tensor, true));
  }
  return made.release();
}

}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_tensor_view(int32_t dtype, int32_t rank, const int64_t* sizes, const void* data,
                         gn_tensor** out) {
  return guarded("gn_tensor_view", [&] {
    gn_tensor*& result = output(out);
    const TensorType type = checked_type(dtype_of_number(dtype), rank, sizes);
    result = new_tensor(Tensor(type, nullptr, address(type, data)), false);
  });
}

gn_error* gn_tensor_copy(int32_t dtype, int32_t rank, const int64_t* sizes, const void* data, size_t bytes,
                         gn_tensor** out) {
  return guarded("gn_tensor_copy", [&] {
    gn_tensor*& result = output(out);
    const TensorType type = checked_type(dtype_of_number(dtype), rank, sizes);
    if (static_cast<size_t>(type.bytes()) != bytes)
      throw BadArgument(fmt::format("bytes is {}, but {} takes {}", bytes, type.to_string(), type.bytes()));
    result = new_tensor(Tensor::copy_of(type, address(type, data)), false);
  });
}

int32_t gn_tensor_dtype(const gn_tensor* tensor) {
  return tensor ? static_cast<int32_t>(tensor->tensor.dtype()) : -1;
}
int32_t gn_tensor_rank(const gn_tensor* tensor) { return tensor ? tensor->tensor.rank() : -1; }
const int64_t* gn_tensor_sizes(const gn_tensor* tensor) {
  if (!tensor) return nullptr;
  return tensor->sizes.empty() ? kNothing : tensor->sizes.data();
}
size_t gn_tensor_bytes(const gn_tensor* tensor) {
  return tensor ? static_cast<size_t>(tensor->tensor.bytes()) : 0;
}
int32_t gn_tensor_gpu(const gn_tensor* tensor) {
  return tensor && tensor->on_gpu ? tensor->on_gpu->gpu() : -1;
}
const void* gn_tensor_data(const gn_tensor* tensor) {
  if (!tensor) return nullptr;
  const std::byte* data = nullptr;
  gn_error* error = guarded("gn_tensor_data", [&] { data = tensor->host().data(); });
  if (error) return gn_error_free(error), nullptr;
  return data ? static_cast<const void*>(data) : kNothing;
}
void gn_tensor_free(gn_tensor* tensor) { delete tensor; }

gn_error* gn_tensor_from_dlpack(gn_dl_managed* managed, gn_tensor** out) {
  return guarded("gn_tensor_from_dlpack", [&] {
    const auto owner = owner_of(&required(managed, "managed"));
    gn_tensor*& result = output(out);
    if (managed->major_version != 1)
      fail("a DLPack tensor has the version {}.{}, expected 1.x", managed->major_version,
           managed->minor_version);
    result = new gn_tensor(taken(managed->dl_tensor, owner));
  });
}

gn_error* gn_tensor_from_dlpack_legacy(gn_dl_legacy* managed, gn_tensor** out) {
  return guarded("gn_tensor_from_dlpack_legacy", [&] {
    const auto owner = owner_of(&required(managed, "managed"));
    gn_tensor*& result = output(out);
    result = new gn_tensor(taken(managed->dl_tensor, owner));
  });
}

gn_error* gn_tensor_to_dlpack(const gn_tensor* tensor, gn_dl_managed** out) {
  return guarded("gn_tensor_to_dlpack", [&] {
    gn_dl_managed*& result = output(out);
    const gn_tensor& from = required(tensor, "tensor");
    auto given = std::make_unique<Given>();
    given->tensor = from.tensor;
    given->sizes = from.sizes;
    given->strides.assign(from.sizes.size(), 1);
    for (size_t i = from.sizes.size(); i-- > 1;) given->strides[i - 1] = given->strides[i] * given->sizes[i];
    const DlType& type = dl_type_of(from.tensor.dtype());
    const int32_t gpu = gn_tensor_gpu(tensor);
    const void* data = from.on_gpu ? from.tensor.data() : gn_tensor_data(tensor);
    given->managed = {
        1,
        0,
        given.get(),
        delete_given,
        from.is_writable ? 0 : kReadOnly,
        {const_cast<void*>(data), from.on_gpu ? kDlCuda : kDlHost, std::max(gpu, 0), from.tensor.rank(),
         type.code, type.bits, 1, given->sizes.data(), given->strides.data(), 0}};
    result = &given.release()->managed;
  });
}

size_t gn_tensors_count(const gn_tensors* tensors) { return tensors ? tensors->names.size() : 0; }
const char* gn_tensors_name(const gn_tensors* tensors, size_t index) {
  return index < gn_tensors_count(tensors) ? tensors->names[index].c_str() : nullptr;
}
const gn_tensor* gn_tensors_at(const gn_tensors* tensors, size_t index) {
  return index < gn_tensors_count(tensors) ? &tensors->tensors[index] : nullptr;
}
const gn_tensor* gn_tensors_find(const gn_tensors* tensors, const char* name) {
  for (size_t i = 0; name && i < gn_tensors_count(tensors); ++i)
    if (tensors->names[i] == name) return &tensors->tensors[i];
  return nullptr;
}
gn_error* gn_tensors_take(const gn_tensors* tensors, size_t index, gn_tensor** out) {
  return guarded("gn_tensors_take", [&] {
    gn_tensor*& result = output(out);
    if (index >= gn_tensors_count(&required(tensors, "tensors")))
      throw BadArgument(fmt::format("index is {}, but there are {} tensors", index, tensors->names.size()));
    result = new gn_tensor(tensors->tensors[index]);
  });
}
void gn_tensors_free(gn_tensors* tensors) { delete tensors; }

}  // extern "C"
