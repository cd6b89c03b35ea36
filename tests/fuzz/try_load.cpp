#include "tests/fuzz/try_load.h"

#include <numeric>

#include "schema/file/layout.h"
#include "schema/file/other_formats/gguf.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/schema/file_models.h"

namespace genesis::testing {
namespace {

// Reads every byte, so that a sanitizer detects a view outside the file.
void read_all(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  volatile double sum = std::accumulate(values.begin(), values.end(), 0.0);
  static_cast<void>(sum);
}

template <class Load>
bool loads(Load&& load) {
  try {
    load();
    return true;
  } catch (const Error&) {
    return false;
  }
}

auto shared(const std::string& bytes) {
  const auto copy = std::make_shared<const Tensor>(
      Tensor::copy_of({DType::u8, {static_cast<int64_t>(bytes.size())}}, bytes.data()));
  return std::pair(copy, std::span(copy->data(), bytes.size()));
}

}  // namespace

bool try_load_model(const std::string& bytes) {
  std::unique_ptr<Model> model;
  if (!loads([&] { model = load_bytes(bytes); })) return false;
  for (const State& state : model->states())
    if (!state.initial.empty_handle()) read_all(state.initial);
  for (const NamedTensor& row : model->tensors()) read_all(row.tensor);
  // An accepted model can be written, and is accepted again, so this must not throw.
  load_bytes(file_of(*model), {.verify = Verify::kFull});
  return true;
}

bool try_load_npy(const std::string& bytes) {
  return loads([&] {
    const auto [owner, data] = shared(bytes);
    read_all(read_npy_from(owner, data));
  });
}

bool try_load_safetensors(const std::string& bytes) {
  return loads([&] {
    const auto [owner, data] = shared(bytes);
    for (const auto& [name, tensor] : read_safetensors_from(owner, data).tensors) read_all(tensor);
  });
}

bool try_load_gguf(const std::string& bytes) {
  return loads([&] {
    const auto [owner, data] = shared(bytes);
    const Gguf file = read_gguf_from(owner, data);
    for (const auto& [name, tensor] : file.tensors)
      if (tensor.type->is_readable())
        read_all(gguf_tensor(*tensor.type, tensor.shape, file.owner, tensor.bytes, DType::f32));
  });
}

}  // namespace genesis::testing
