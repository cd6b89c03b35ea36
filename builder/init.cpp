#include "builder/init.h"

#include <cmath>

#include "builder/init_watcher.h"
#include "schema/core/philox.h"

namespace genesis::init {
namespace {

// Hashes a parameter's name (FNV-1a) to the number of its random stream, which is the same on every machine.
uint64_t stream_of(const std::string& name) {
  uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

// Reduces every kind to a constant, a uniform, a normal or a truncated normal distribution.
Init resolve(const Init& init, const Shape& shape) {
  switch (init.kind) {
    case Kind::kXavierUniform: {
      const Fans fans = fans_of(shape);
      const double bound = init.a * std::sqrt(6.0 / (fans.in + fans.out));
      return uniform(-bound, bound);
    }
    case Kind::kXavierNormal: {
      const Fans fans = fans_of(shape);
      return normal(0, init.a * std::sqrt(2.0 / (fans.in + fans.out)));
    }
    case Kind::kKaimingUniform: {
      const double bound = std::sqrt(6.0 / ((1 + init.a * init.a) * fans_of(shape).in));
      return uniform(-bound, bound);
    }
    case Kind::kKaimingNormal:
      return normal(0, std::sqrt(2.0 / ((1 + init.a * init.a) * fans_of(shape).in)));
    default:
      return init;
  }
}

void fill(const Init& init, std::span<float> values, uint64_t seed, uint64_t stream) {
  switch (init.kind) {
    case Kind::kConstant:
      std::ranges::fill(values, static_cast<float>(init.a));
      return;
    case Kind::kUniform:
      fill_uniform(values, seed, stream, init.a, init.b);
      return;
    case Kind::kNormal:
      fill_normal(values, seed, stream, init.a, init.b);
      return;
    default:
      fill_trunc_normal(values, seed, stream, init.a, init.b, init.low, init.high);
      return;
  }
}

}  // namespace

Fans fans_of(const Shape& shape) {
  if (shape.rank() < 2)
    fail("fan in and fan out need a weight of rank 2 or more, this one is {}: choose another initializer",
         shape.to_string());
  double receptive = 1;
  for (int i = 2; i < shape.rank(); ++i) receptive *= static_cast<double>(shape[i].value());
  return {static_cast<double>(shape[1].value()) * receptive,
          static_cast<double>(shape[0].value()) * receptive};
}

Tensor make(const Init& init, const TensorType& type, uint64_t seed, const std::string& name) {
  if (!is_float(type.dtype))
    fail("parameter '{}' is {}: initializers make real numbers", name, name_of(type.dtype));
  const Init resolved = resolve(init, type.shape);
  std::byte* data;
  Tensor values = Tensor::uninitialized({DType::f32, type.shape}, &data);
  fill(resolved, {reinterpret_cast<float*>(data), static_cast<size_t>(values.numel())}, seed,
       stream_of(name));
  values = values.to(type.dtype);
  Watcher::add(static_cast<uint64_t>(values.bytes()));
  return values;
}

}  // namespace genesis::init
