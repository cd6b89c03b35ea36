// Transforms of signals, as products with matrices that are computed when the model is imported, windows, and features of words and numbers.
#include <cmath>
#include <numbers>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kLongest = 8192;  // the matrix of a transform has the square of that

Value constant_of(Call& call, const std::vector<int64_t>& shape, const std::vector<double>& numbers,
                  DType dtype) {
  return cast(call.g().constant("matrix", Tensor::of(shape, numbers)), dtype);
}

// The matrix of cosines or sines of 2 pi j k / length: [from, to].
Value waves(Call& call, int64_t from, int64_t to, int64_t length, bool is_sine, DType dtype) {
  std::vector<double> numbers;
  for (int64_t j = 0; j < from; ++j)
    for (int64_t k = 0; k < to; ++k) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(j * k % length) / static_cast<double>(length);
      numbers.push_back(is_sine ? std::sin(angle) : std::cos(angle));
    }
  return constant_of(call, {from, to}, numbers, dtype);
}

Value cut_or_padded(Value x, int64_t length) {
  const int64_t size = x.dim(-1).value();
  if (size >= length) return narrow(x, x.rank() - 1, 0, length);
  std::vector<int64_t> before(static_cast<size_t>(x.rank())), after = before;
  after.back() = length - size;
  return pad(x, before, after);
}

// Transforms the last axis of a real and an imaginary part, which may be empty; the result has both as its last axis.
Value transformed(Call& call, Value real, Value imaginary, int64_t length, bool inverse, bool onesided) {
  if (length < 1 || length > kLongest)
    fail("a transform of length {} is not read: expected 1 to {}", length, kLongest);
  const DType dtype = real.dtype();
  const int64_t to = onesided && !inverse ? length / 2 + 1 : length;
  real = cut_or_padded(real, length);
  const Value cosines = waves(call, length, to, length, false, dtype),
              sines = waves(call, length, to, length, true, dtype);
  // e^(-i a) = cos a - i sin a; the inverse has + and is divided by the length.
  Value re = matmul(real, cosines), im = matmul(real, sines);
  if (!inverse) im = -im;
  if (imaginary) {
    imaginary = cut_or_padded(imaginary, length);
    const Value other = matmul(imaginary, sines);
    re = inverse ? re - other : re + other;
    im = im + matmul(imaginary, cosines);
  }
  if (inverse) re = re / static_cast<double>(length), im = im / static_cast<double>(length);
  return stack({re, im}, re.rank());
}

// The whole spectrum of a real signal from its first half.
std::pair<Value, Value> whole_spectrum(Value real, Value imaginary, int64_t length) {
  const int64_t half = length / 2 + 1;
  real = cut_or_padded(real, half), imaginary = cut_or_padded(imaginary, half);
  const int64_t mirrored = length - half, axis = real.rank() - 1;
  if (mirrored <= 0) return {real, imaginary};
  const auto mirror = [&](Value x) { return flip(narrow(x, axis, 1, mirrored), {axis}); };
  return {concat({real, mirror(real)}, axis), concat({imaginary, -mirror(imaginary)}, axis)};
}

// x [..., 1] (real) or [..., 2]
Value fourier_transform(Call& call) {
  const Value x = call.tensor(0);
  const bool inverse = call.attribute("inverse", 0) != 0, onesided = call.attribute("onesided", 0) != 0;
  int64_t axis = call.version() < 20 ? call.attribute("axis", 1) : call.has(2) ? call.integer(2) : -2;
  axis = normalize_axis(axis, x.rank());
  if (axis == x.rank() - 1) fail("it transforms the axis of real and imaginary parts");
  const bool is_complex = x.dim(-1) == Dim(2);
  const int64_t size = x.dim(axis).value();
  const int64_t length = call.has(1) ? call.integer(1) : inverse && onesided ? 2 * (size - 1) : size;
  Value real = movedim(select(x, -1, 0), axis, -1), imaginary;
  if (is_complex) imaginary = movedim(select(x, -1, 1), axis, -1);
  if (inverse && onesided) {
    if (!imaginary) imaginary = zeros_like(real);
    std::tie(real, imaginary) = whole_spectrum(real, imaginary, length);
  }
  const Value y = transformed(call, real, imaginary, length, inverse, onesided);
  const Value back = movedim(y, y.rank() - 2, axis);
  return inverse && onesided ? narrow(back, back.rank() - 1, 0, 1) : back;
}

// signal [batch, time, 1 or 2]
Value short_time_transform(Call& call) {
  const Value x = call.tensor(0);
  const int64_t step = call.integer(1), size = x.dim(1).value();
  const bool onesided = call.attribute("onesided", 1) != 0;
  const int64_t length = call.has(3) ? call.integer(3) : call.has(2) ? call.tensor(2).dim(0).value() : size;
  if (step < 1 || length < 1 || length > size)
    fail("frames of {} in steps of {} over {}", length, step, size);
  std::vector<Value> frames;
  for (int64_t at = 0; at + length <= size; at += step) frames.push_back(narrow(x, 1, at, length));
  Value framed = stack(frames, 1);  // [batch, frames, length, 1 or 2]
  const auto part = [&](int64_t i) {
    const Value own = select(framed, -1, i);
    return call.has(2) ? own * cast(call.tensor(2), x.dtype()) : own;
  };
  return transformed(call, part(0), x.dim(-1) == Dim(2) ? part(1) : Value{}, length, false, onesided);
}

enum class Window : uint8_t { kHann, kHamming, kBlackman };
template <Window kind>
Value window(Call& call) {
  const int64_t size = call.integer(0);
  const auto dtype = onnx_storage(static_cast<OnnxElement>(call.attribute("output_datatype", 1)));
  const bool periodic = call.attribute("periodic", 1) != 0;
  if (!dtype || size < 0 || size > (1 << 24)) fail("a window of {} elements is not read", size);
  const double last = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> numbers;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = last == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / last;
    if (kind == Window::kHann) numbers.push_back(0.5 - 0.5 * std::cos(angle));
    if (kind == Window::kHamming) numbers.push_back(25.0 / 46 - 21.0 / 46 * std::cos(angle));
    if (kind == Window::kBlackman)
      numbers.push_back(0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle));
  }
  return constant_of(call, {size}, numbers, *dtype);
}

// The bins of a spectrum where the triangles of the mel scale begin, have their peaks and end.
std::vector<int64_t> mel_bins(int64_t bins, int64_t length, double rate, double lower, double upper) {
  const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  const double step = (mel(upper) - mel(lower)) / static_cast<double>(bins + 2);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz =
        700 * std::expm1((static_cast<double>(i) * step + mel(lower)) / 2595 * std::log(10.0));
    places.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate)));
  }
  return places;
}
Value mel_weights(Call& call) {
  const int64_t bins = call.integer(0), length = call.integer(1), rows = length / 2 + 1;
  const auto dtype = onnx_storage(static_cast<OnnxElement>(call.attribute("output_datatype", 1)));
  if (!dtype || bins < 1 || bins > kLongest || length < 1 || length > kLongest * 16)
    fail("{} bins of {} are not read", bins, length);
  const std::vector<int64_t> at = mel_bins(bins, length, call.number(2), call.number(3), call.number(4));
  std::vector<double> numbers(static_cast<size_t>(rows * bins));
  const auto set = [&](int64_t row, int64_t bin, double value) {
    if (row < 0 || row >= rows) fail("its highest frequency is above half of its sample rate");
    numbers[static_cast<size_t>(row * bins + bin)] = value;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t begin = at[static_cast<size_t>(i)], peak = at[static_cast<size_t>(i) + 1],
                  end = at[static_cast<size_t>(i) + 2];
    if (peak == begin) set(peak, i, 1);
    for (int64_t j = begin; peak != begin && j <= peak; ++j)
      set(j, i, static_cast<double>(j - begin) / static_cast<double>(peak - begin));
    for (int64_t j = peak; j < end; ++j)
      set(j, i, static_cast<double>(end - j) / static_cast<double>(end - peak));
  }
  return constant_of(call, {rows, bins}, numbers, *dtype);
}

// --- features

Value binarized(Call& call) {
  const Value x = call.tensor(0);
  return cast(x > call.real("threshold", 0), x.dtype());
}

// The runs of words whose occurrences are counted, and the place of each in the result.
struct Runs {
  std::vector<std::vector<int64_t>> words;
  std::vector<int64_t> places;
  std::vector<double> weights;
  int64_t size = 0;
};
Runs runs_of(Call& call) {
  Runs runs;
  const auto pool = call.list("pool_int64s"), starts = call.list("ngram_counts");
  runs.places = call.list("ngram_indexes"), runs.weights = call.reals("weights");
  if (call.has_attribute("pool_strings")) fail("texts are not read");
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1;
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    if (starts[i] < 0 || end > static_cast<int64_t>(pool.size()))
      fail("its ngram_counts are beyond its pool");
    for (int64_t at = starts[i]; at + length <= end; at += length)
      runs.words.emplace_back(pool.begin() + at, pool.begin() + at + length);
  }
  if (runs.words.size() != runs.places.size())
    fail("it has {} runs and {} places", runs.words.size(), runs.places.size());
  for (const int64_t place : runs.places) runs.size = std::max(runs.size, place + 1);
  if (runs.size > 65536) fail("it counts {} runs", runs.size);
  return runs;
}

// The occurrences of a run in each row of x [rows, length], with up to `skips` words between each two of its own.
Value occurrences(Value x, const std::vector<int64_t>& words, int64_t skips) {
  const int64_t length = x.dim(1).value(), count = static_cast<int64_t>(words.size());
  Value total;
  for (int64_t skip = 0; skip <= (count == 1 ? 0 : skips); ++skip) {
    const int64_t reach = (count - 1) * (skip + 1), positions = length - reach;
    if (positions < 1) continue;
    Value hits;
    for (int64_t k = 0; k < count; ++k) {
      const Value own = narrow(x, 1, k * (skip + 1), positions) == words[static_cast<size_t>(k)];
      hits = hits ? logical_and(hits, own) : own;
    }
    const Value found = sum(cast(hits, DType::f32), 1);
    total = total ? total + found : found;
  }
  return total ? total : x.graph ? zeros(*x.graph, {x.dim(0)}) : total;
}

Value counted_runs(Call& call) {
  const Value given = call.tensor(0), x = cast(given.rank() == 1 ? unsqueeze(given, 0) : given, DType::i64);
  const Runs runs = runs_of(call);
  const int64_t least = call.attribute("min_gram_length", 1), most = call.attribute("max_gram_length", 1),
                skips = call.attribute("max_skip_count", 0);
  const std::string mode = call.text("mode", "TF");
  if (skips < 0 || skips > 1024 || (mode != "TF" && mode != "IDF" && mode != "TFIDF"))
    fail("its mode is '{}'", mode);
  std::vector<Value> columns(static_cast<size_t>(runs.size), call.g().zeros({x.dim(0)}));
  for (size_t i = 0; i < runs.words.size(); ++i) {
    const auto length = static_cast<int64_t>(runs.words[i].size());
    if (length < least || length > most || runs.places[i] < 0) continue;
    Value count = occurrences(x, runs.words[i], skips);
    const double weight = i < runs.weights.size() ? runs.weights[i] : 1;
    if (mode == "IDF") count = where(count > 0.0, full(call.graph(), {}, weight), Scalar(0.0));
    if (mode == "TFIDF") count = count * weight;
    columns[static_cast<size_t>(runs.places[i])] = count;
  }
  const Value all = stack(columns, 1);
  return given.rank() == 1 ? squeeze(all, 0) : all;
}

}  // namespace

const Operators& signal_operators() {
  static const Operators kOperators = {
      {"BlackmanWindow", one<window<Window::kBlackman>>},
      {"DFT", one<fourier_transform>},
      {"HammingWindow", one<window<Window::kHamming>>},
      {"HannWindow", one<window<Window::kHann>>},
      {"MelWeightMatrix", one<mel_weights>},
      {"STFT", one<short_time_transform>},
      {"TfIdfVectorizer", one<counted_runs>},
      {"ai.onnx.ml::Binarizer", one<binarized>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
