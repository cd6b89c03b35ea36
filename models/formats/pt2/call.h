// One call of an operator in an exported program: its arguments by their names, as torch's schema of the operator names them.
// Every argument that the file gives must be read, or the call is refused: an argument that nobody looks at may change the result.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "builder/graph_builder.h"

namespace genesis::models::pt2 {

// The Environment holds what the names of the program stand for while its calls are translated in order.
struct Environment {
  std::map<std::string, Value> tensors;
  std::map<std::string, Dim> sizes;
  std::map<std::string, std::string> symbols;  // the file's names of symbolic sizes, and ours
};

// Returns the dtype for torch's number of a scalar type in the file. Throws Error if there is none here (complex, FP8).
DType dtype_of(int64_t scalar_type);

class Call {
 public:
  // `node` has "target", "inputs" and "outputs" and must outlive the call, like `environment`.
  Call(GraphBuilder& g, const nlohmann::json& node, const Environment& environment);

  GraphBuilder& g() const { return *g_; }
  const std::string& target() const { return target_; }
  bool has(const std::string& name);  // given, and not None

  // These throw Error if the argument is missing or of another kind.
  Value tensor(const std::string& name);
  std::vector<Value> tensors(const std::string& name);  // an empty Value for None
  Dim size(const std::string& name);
  std::vector<Dim> sizes(const std::string& name);
  int64_t integer(const std::string& name);
  std::vector<int64_t> integers(const std::string& name);
  Scalar scalar(const std::string& name);
  std::vector<double> numbers(const std::string& name);

  // These return `otherwise` for an argument that is missing or None.
  Value tensor_or(const std::string& name, Value otherwise) { return has(name) ? tensor(name) : otherwise; }
  int64_t integer_or(const std::string& name, int64_t otherwise) {
    return has(name) ? integer(name) : otherwise;
  }
  std::vector<int64_t> integers_or(const std::string& name, std::vector<int64_t> otherwise) {
    return has(name) ? integers(name) : otherwise;
  }
  double number_or(const std::string& name, double otherwise) {
    return has(name) ? scalar(name).as_double() : otherwise;
  }
  bool flag_or(const std::string& name, bool otherwise);
  std::string text_or(const std::string& name, const std::string& otherwise);
  std::optional<DType> dtype(const std::string& name);

  // Returns an argument that may be a tensor or a number as a tensor like `like`.
  Value operand(const std::string& name, Value like);
  bool is_tensor(const std::string& name);
  bool is_list(const std::string& name);  // a list of sizes
  bool is_text(const std::string& name);

  // Throws Error unless the argument is missing, None or equal to this value, which it is in torch if it is not given.
  void must_be(const std::string& name, const nlohmann::json& value);
  // Accepts any value of an argument that does not change the result.
  void accept_any(const std::string& name) { read_.insert(name); }
  void ignore_all();  // for checks, which change no result
  void check_all_read() const;

 private:
  const nlohmann::json& argument(const std::string& name);  // null if it is missing or None
  const nlohmann::json& required(const std::string& name, std::initializer_list<const char*> kinds);
  Value tensor_named(const nlohmann::json& value) const;
  Dim size_of(const nlohmann::json& value) const;

  GraphBuilder* g_;
  std::string target_;
  const Environment* environment_;
  std::map<std::string, const nlohmann::json*> arguments_;
  std::set<std::string> read_;
};

}  // namespace genesis::models::pt2
