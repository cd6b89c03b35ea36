// Operators of classical machine learning that work on numbers.
#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {
namespace {

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

const Operators& feature_operators() {
  static const Operators kOperators = {
      {"TfIdfVectorizer", one<counted_runs>},
      {"ai.onnx.ml::Binarizer", one<binarized>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
