#include "models/formats/pt2/sharing.h"

#include <optional>
#include <set>
#include <string_view>

#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "models/formats/pt2/size_expression.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::models::pt2 {
namespace {

using nlohmann::json;
using Kinds = std::set<std::string_view>;

// "torch.ops.aten.view.default" is of the kind "view".
std::string_view kind_in(std::string_view target) {
  target = target.substr(0, target.rfind('.'));
  return target.substr(target.rfind('.') + 1);
}
std::string_view kind_of(const json& node) {
  return kind_in(node.at("target").get_ref<const std::string&>());
}

// Operators whose results have the elements of their argument in the same order.
const Kinds kSameOrder = {"alias",     "contiguous",   "detach",  "dropout", "feature_dropout", "flatten",
                          "reshape",   "reshape_as",   "squeeze", "to",      "type_as",         "unflatten",
                          "unsqueeze", "_unsafe_view", "view",    "view_as"};
const Kinds kOtherViews = {
    "broadcast_to", "chunk",  "expand", "expand_as",        "movedim",  "narrow",   "numpy_T", "permute",
    "select",       "slice",  "split",  "split_with_sizes", "swapaxes", "swapdims", "t",       "tensor_split",
    "transpose",    "unbind", "unfold", "meshgrid"};
// Operators of the first table whose results may have other values than their argument: then they are tensors of their own.
const Kinds kMayCompute = {"dropout", "feature_dropout", "to", "type_as"};
// Operators of shapes whose results are tensors of their own.
const Kinds kCopies = {"cat",
                       "concat",
                       "constant_pad_nd",
                       "diff",
                       "flip",
                       "pad",
                       "repeat",
                       "repeat_interleave",
                       "roll",
                       "stack",
                       "tile",
                       "tril",
                       "triu"};
// Operators that copy if the memory of their argument is not in order.
const Kinds kMayCopy = {"contiguous", "flatten", "reshape", "reshape_as"};

// Returns the strides of a tensor, in elements; nothing if one is no polynomial of sizes of inputs.
std::optional<std::vector<Dim>> strides_of(const json& meta,
                                           const std::map<std::string, std::string>& symbols) {
  std::vector<Dim> strides;
  for (const json& stride : meta.at("strides")) {
    const auto known = stride.contains("as_int")
                           ? std::optional<Dim>(stride.at("as_int").get<int64_t>())
                           : parse_size(stride.at("as_expr").at("expr_str").get<std::string>(), symbols);
    if (!known) return std::nullopt;
    strides.push_back(*known);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const std::vector<Dim>& strides) {
  Dim expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (!(shape[axis] == Dim(1)) && !(strides[static_cast<size_t>(axis)] == expected)) return false;
    expected = expected * shape[axis];
  }
  return true;
}

// Returns true if torch's reshape to `shape` makes a view: each run of axes whose elements follow one another in memory must be a run of new
// axes (computeStride of ATen). Sizes that differ as polynomials are different, as they were for the exporter.
bool reshape_makes_view(const Shape& source, const std::vector<Dim>& strides, const Shape& shape) {
  int at = shape.rank() - 1;
  Dim elements = 1, seen = 1;
  if (source.rank() == 0) return true;
  Dim base = strides.back();
  for (int axis = source.rank() - 1; axis >= 0; --axis) {
    elements = elements * source[axis];
    const bool ends_run = axis == 0 || (!(source[axis - 1] == Dim(1)) &&
                                        !(strides[static_cast<size_t>(axis) - 1] == elements * base));
    if (!ends_run) continue;
    while (at >= 0 && (!(seen == elements) || shape[at] == Dim(1))) seen = seen * shape[at--];
    if (!(seen == elements)) return false;
    if (axis > 0) base = strides[static_cast<size_t>(axis) - 1];
    elements = seen = 1;
  }
  return at < 0;
}

// Returns true if a call names an order of memory that is not row-major, such as channels last.
bool wants_other_format(const json& node) {
  constexpr int64_t kContiguous = 1;
  for (const json& input : node.at("inputs"))
    if (input.at("arg").contains("as_memory_format") &&
        input.at("arg").at("as_memory_format").get<int64_t>() != kContiguous)
      return true;
  return false;
}

template <class F>
void for_each_tensor(const json& arg, const F& f) {
  if (arg.contains("as_tensor")) f(arg.at("as_tensor").at("name").get<std::string>());
  for (const char* kind : {"as_tensors", "as_optional_tensors"}) {
    if (!arg.contains(kind)) continue;
    for (const json& item : arg.at(kind)) {
      const json& tensor = item.contains("as_tensor") ? item.at("as_tensor") : item;
      if (tensor.contains("name")) f(tensor.at("name").get<std::string>());
    }
  }
}

}  // namespace

bool makes_views(std::string_view target) {
  const std::string_view kind = kind_in(target);
  return kOtherViews.contains(kind) || (kSameOrder.contains(kind) && !kMayCompute.contains(kind));
}

bool makes_copies(std::string_view target) { return kCopies.contains(kind_in(target)); }

std::string Sharing::resolved(const std::string& name) const {
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? name : alias->second;
}

const Sharing::View* Sharing::view(const std::string& name) const {
  const auto known = view_of_name_.find(name);
  return known == view_of_name_.end() ? nullptr : &views_[known->second];
}

std::string Sharing::owner(const std::string& name) const {
  std::string at = resolved(name);
  while (const View* one = view(at)) at = one->source;
  return at;
}

void Sharing::add_alias(const std::string& name, const std::string& result) {
  aliases_[result] = resolved(name);
}

void Sharing::note_call(const json& node) {
  const std::string_view kind = kind_of(node);
  if ((!kSameOrder.contains(kind) && !kOtherViews.contains(kind)) || node.at("inputs").empty()) return;
  const json& first = node.at("inputs").at(0).at("arg");
  if (!first.contains("as_tensor")) return;
  size_t place = 0;
  for (const json& output : node.at("outputs"))
    for_each_tensor(output, [&](const std::string& name) { add_view(name, node, place++); });
}

void Sharing::add_view(const std::string& name, const json& node, size_t output) {
  const auto source = node.at("inputs").at(0).at("arg").at("as_tensor").at("name").get<std::string>();
  const Value value = environment_.tensors.at(name), of = environment_.tensors.at(source);
  const std::string_view kind = kind_of(node);
  if (value.dtype() != of.dtype() || (kMayCompute.contains(kind) && !value.is(of)))
    return;  // the result is a tensor of its own
  bool may_copy = false;
  if (kMayCopy.contains(kind)) {
    const auto strides = strides_of(graph_.at("tensor_values").at(source), environment_.symbols);
    may_copy = !strides || strides->size() != static_cast<size_t>(of.rank()) || wants_other_format(node);
    if (!may_copy && !is_contiguous(of.shape(), *strides) &&
        (kind == "contiguous" || !reshape_makes_view(of.shape(), *strides, value.shape())))
      return;  // torch copies, so that the result is a tensor of its own
  }
  view_of_name_[name] = views_.size();
  views_.push_back({name, resolved(source), &node, output, may_copy});
}

void Sharing::set(const std::string& name, Value value) {
  environment_.tensors[name] = value;
  for (const auto& [alias, of] : aliases_)
    if (of == name) environment_.tensors[alias] = value;
}

bool Sharing::is_read_behind(const std::string& name, size_t call) {
  if (last_read_.empty()) {
    size_t number = 0;
    const auto note = [&](const std::string& read) { last_read_[read] = number; };
    for (const json& node : graph_.at("nodes")) {
      for (const json& input : node.at("inputs")) for_each_tensor(input.at("arg"), note);
      ++number;
    }
    for (const json& output : graph_.at("outputs")) for_each_tensor(output, note);
  }
  const auto is_read = [&](const std::string& one) {
    const auto last = last_read_.find(one);
    return last != last_read_.end() && last->second > call;
  };
  if (is_read(name)) return true;
  for (const auto& [alias, of] : aliases_)
    if (of == name && is_read(alias)) return true;
  return false;
}

Value Sharing::replayed(GraphBuilder& g, const View& view, const Environment& environment) const {
  Call call(g, *view.node, environment);
  const Results results = find_operator(view.node->at("target").get<std::string>())->translate(call);
  const Value value = std::get<std::vector<Value>>(results).at(view.output);
  const Shape &shape = value.shape(), &before = environment_.tensors.at(view.name).shape();
  if (shape != before)
    fail("after a write, its view '{}' would be {}, and it is {}: call clone() before the write", view.name,
         shape.to_string(), before.to_string());
  return value;
}

// An element of a source that a view shows twice has no one value after a write into the view.
void Sharing::check_elements_are_apart(GraphBuilder& g, const View& view) const {
  const std::string_view kind = kind_of(*view.node);
  bool is_apart = true;
  if (kind == "unfold") {
    Call call(g, *view.node, environment_);
    is_apart = call.integer("step") >= call.integer("size");
  } else if (kind == "expand" || kind == "expand_as" || kind == "broadcast_to") {
    is_apart = environment_.tensors.at(view.name).shape().numel() ==
               environment_.tensors.at(view.source).shape().numel();
  }
  if (!is_apart)
    fail(
        "it writes into '{}', in which {} shows elements of '{}' several times: call clone() before the "
        "write",
        view.name, kind, view.source);
}

// Returns the source of a view with the view's new value in it: by its places among the elements of the source.
Value Sharing::source_with(GraphBuilder& g, const View& view) const {
  const Value source = environment_.tensors.at(view.source), value = environment_.tensors.at(view.name);
  if (kSameOrder.contains(kind_of(*view.node))) return reshape(value, source.shape());
  check_elements_are_apart(g, view);
  Environment places = environment_;
  if (kind_of(*view.node) == "slice" || kind_of(*view.node) == "select") {
    Call call(g, *view.node, places);
    if (const Value written = try_write_slice(call, source, value)) return written;
  }
  const Value numbers = arange(g.graph(), source.shape().numel());
  places.tensors[view.node->at("inputs").at(0).at("arg").at("as_tensor").at("name").get<std::string>()] =
      reshape(numbers, source.shape());
  const Value at = replayed(g, view, places);
  return reshape(scatter(flatten(source), 0, flatten(at), flatten(value)), source.shape());
}

void Sharing::write(GraphBuilder& g, const std::string& written, const std::string& result, size_t call) {
  std::string name = resolved(written);
  set(name, environment_.tensors.at(result));
  add_alias(name, result);
  std::set<std::string> done = {name};
  while (const View* one = view(name)) {
    if (one->may_be_a_copy)
      fail(
          "it writes over '{}', which may share the memory of '{}' or not, as the layout of that allows: "
          "call clone() before the write",
          written, one->source);
    set(one->source, source_with(g, *one));
    name = one->source;
    done.insert(name);
  }
  renew_other_views(g, name, done, call);
}

void Sharing::check_is_alone(const std::string& written, size_t call) {
  const std::string name = resolved(written);
  bool is_alone = view(name) == nullptr;
  for (const View& one : views_)
    if (owner(one.name) == name && is_read_behind(one.name, call)) is_alone = false;
  if (!is_alone)
    fail(
        "it changes the shape of '{}' in place, which shares its memory with other tensors: call clone() "
        "before",
        written);
}

// Computes again the other views of a tensor that has a new value, if a later call reads them.
void Sharing::renew_other_views(GraphBuilder& g, const std::string& owner_name,
                                const std::set<std::string>& done, size_t call) {
  std::set<std::string> wanted;
  for (size_t i = views_.size(); i-- > 0;) {
    const View& one = views_[i];
    if (done.contains(one.name) || owner(one.name) != owner_name) continue;
    if (!wanted.contains(one.name) && !is_read_behind(one.name, call)) continue;
    wanted.insert(one.name), wanted.insert(one.source);
    if (one.may_be_a_copy)
      fail(
          "it writes over '{}', of which '{}' is a view or a copy, as the layout of its memory allows: call "
          "clone() before the write",
          owner_name, one.name);
  }
  for (const View& one : views_)
    if (wanted.contains(one.name) && !done.contains(one.name)) set(one.name, replayed(g, one, environment_));
}

}  // namespace genesis::models::pt2
