#include "schema/ops/tensor/random.h"

#include <algorithm>

#include "schema/core/type_limits.h"
#include "schema/ops/gradient.h"

namespace genesis {
namespace {

void check_rng(const TensorType& rng) {
  if (!(rng == TensorType{DType::i64, {2}}))
    fail("the state of the random numbers must be i64[2] {{seed, step}}, got {}", rng.to_string());
}

void check_real(const TensorType& x, std::string_view op) {
  if (!is_float(x.dtype)) fail("{} takes real numbers, got {}: cast them first", op, x.to_string());
}

Shape without_last(const TensorType& x, std::string_view op) {
  if (x.shape.rank() == 0) fail("{} takes rows along a last axis, got {}", op, x.to_string());
  if (x.shape[x.shape.rank() - 1] == Dim(0)) fail("{} cannot choose from no elements: {}", op, x.to_string());
  std::vector<Dim> dims = x.shape.dims();
  dims.pop_back();
  return Shape(std::move(dims));
}

// Checks {seed, step} for all rows, or for each row.
void check_rng_of_rows(const TensorType& rng, const Shape& rows) {
  std::vector<Dim> of_rows = {2};
  for (const Dim& dim : rows.dims()) of_rows.push_back(dim);
  if (!(rng == TensorType{DType::i64, {2}}) && !(rng == TensorType{DType::i64, Shape(of_rows)}))
    fail("the state of the random numbers must be i64[2] {{seed, step}} or {} with those of each row, got {}",
         TensorType{DType::i64, Shape(of_rows)}.to_string(), rng.to_string());
}

void check_setting(const TensorType& x, DType dtype, const Shape& rows, std::string_view what) {
  if (x.dtype != dtype || (!(x.shape.numel() == Dim(1)) && !(x.shape == rows)))
    fail("{} must be one {}, or one for each row, {}, got {}", what, name_of(dtype),
         TensorType{dtype, rows}.to_string(), x.to_string());
}

int64_t next_stream(Value rng) {
  if (!rng) fail("a random op was given an empty value as its RNG state: a Scope's rng() makes one");
  int64_t last = 0;
  for (const Node& node : rng.graph->nodes())
    if (const AttrValue* stream = node.op->info.random ? node.attributes.find("stream") : nullptr)
      last = std::max(last, std::get<int64_t>(*stream));
  return last + 1;
}

template <class Op>
Value draw(Op op, const std::vector<Value>& inputs) {
  op.stream = next_stream(inputs[0]);
  return emit(op, inputs);
}

}  // namespace

namespace ops {

std::vector<TensorType> Rand::infer(Types in) const {
  check_rng(in[0]);
  check_real({dtype, shape}, "rand");
  return {{dtype, shape}};
}

std::vector<TensorType> Randn::infer(Types in) const {
  check_rng(in[0]);
  check_real({dtype, shape}, "randn");
  return {{dtype, shape}};
}

std::vector<TensorType> RandInt::infer(Types in) const {
  check_rng(in[0]);
  if (low >= high) fail("randint takes low < high, got [{}, {})", low, high);
  return {{dtype, shape}};
}

std::vector<TensorType> Bernoulli::infer(Types in) const {
  check_rng(in[0]);
  check_real(in[1], "bernoulli");
  return {in[1]};
}

void Bernoulli::grad(GradientContext&) const {}  // zero: the result is a step function of the probability

std::vector<TensorType> Multinomial::infer(Types in) const {
  check_rng(in[0]);
  check_real(in[1], "multinomial");
  Shape shape = without_last(in[1], "multinomial");
  const Dim& size = in[1].shape[in[1].shape.rank() - 1];
  if (num_samples < 0) fail("multinomial cannot draw {} samples", num_samples);
  if (!replacement && size.is_constant() && num_samples > size.value())
    fail("multinomial cannot draw {} samples of {} without replacement", num_samples, in[1].to_string());
  shape.push_back(num_samples);
  return {{DType::i64, shape}};
}

std::vector<TensorType> Dropout::infer(Types in) const {
  check_rng(in[0]);
  check_real(in[1], "dropout");
  if (!(p >= 0 && p <= 1)) fail("dropout takes a probability p in [0, 1], got {}", p);
  if (first < 0 || first % 4 != 0)
    fail("dropout: `first` must be a multiple of 4 and not negative, got {}", first);
  check_amount(first, "dropout: `first`");
  return {in[1]};
}

std::vector<TensorType> SampleLogits::infer(Types in) const {
  check_real(in[1], "sample_logits");
  const Shape rows = without_last(in[1], "sample_logits");
  check_rng_of_rows(in[0], rows);
  if (in.size() == 3 || in.size() == 4)
    fail("sample_logits takes temperature, top_k and top_p together, {} inputs were given", in.size());
  if (in.size() >= 5) {
    check_setting(in[2], DType::f32, rows, "temperature");
    check_setting(in[3], DType::i64, rows, "top_k");
    check_setting(in[4], DType::f32, rows, "top_p");
  }
  if (in.size() == 6) check_setting(in[5], DType::f32, rows, "min_p");
  if (!(temperature >= 0)) fail("temperature must not be negative, got {}", temperature);
  if (top_k < 0) fail("top_k must not be negative, got {}", top_k);
  if (!(top_p >= 0)) fail("top_p must not be negative, got {}", top_p);
  if (!(min_p >= 0)) fail("min_p must not be negative, got {}", min_p);
  return {{DType::i64, rows}};
}

std::vector<TensorType> RngNext::infer(Types in) const {
  check_rng(in[0]);
  return {in[0]};
}

void Dropout::grad(GradientContext& g) const {
  if (g.wants(1)) g.set(1, emit(*this, {g.input(0), g.dy()}));
}

}  // namespace ops

std::span<const OpDef* const> random_ops() {
  return kOpDefs<ops::Rand, ops::Randn, ops::RandInt, ops::Bernoulli, ops::Multinomial, ops::Dropout,
                 ops::SampleLogits, ops::RngNext>;
}

Value rand(Value rng, Shape shape, DType dtype) { return draw(ops::Rand{{std::move(shape), dtype}}, {rng}); }

Value randn(Value rng, Shape shape, DType dtype) {
  return draw(ops::Randn{{std::move(shape), dtype}}, {rng});
}

Value randint(Value rng, Shape shape, int64_t low, int64_t high, DType dtype) {
  return draw(ops::RandInt{{std::move(shape), dtype}, low, high}, {rng});
}

Value bernoulli(Value rng, Value probability) { return draw(ops::Bernoulli{}, {rng, probability}); }

Value multinomial(Value rng, Value weights, int64_t num_samples, bool replacement) {
  return draw(ops::Multinomial{num_samples, replacement}, {rng, weights});
}

Value dropout(Value rng, Value x, double p) {
  if (p == 0) return x;
  return draw(ops::Dropout{p}, {rng, x});
}

Value sample_logits(Value rng, Value logits, const SampleOptions& options) {
  return draw(options, {rng, logits});
}

Value sample_logits(Value rng, Value logits, Value temperature, Value top_k, Value top_p, Value min_p) {
  std::vector<Value> inputs = {rng, logits, temperature, top_k, top_p};
  if (min_p) inputs.push_back(min_p);
  return draw(ops::SampleLogits{}, inputs);
}

Value rng_next(Value rng) { return emit(ops::RngNext{}, {rng}); }

}  // namespace genesis
