// Code shared by the writers of fused kernels: lines of text, the ops of a program as statements, and addresses.
// Value %5 of a program becomes the variable v5, declared in the innermost scope in which it is known.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "backends/cuda/codegen/fused_plan.h"
#include "backends/cuda/codegen/source_types.h"

namespace genesis::cuda {

class FusedWriter {
 public:
  FusedWriter(const FusedProgram& program, const FusedPlan& plan) : program_(program), plan_(plan) {}

 protected:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(static_cast<size_t>(indent_) * 2, ' ') +
             fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++indent_;
  }
  void close() {
    --indent_;
    line("}}");
  }

  int num_inputs() const;
  bool is_input(int v) const;
  const FusedOp& fused_op(int v) const;
  DType dtype(int v) const;
  Extent extent(int v) const;
  bool is_dense(int input) const;
  bool is_reduction(int v) const;
  std::string source_of(int input) const;
  bool whole(int value) const;  // has one element for every element of the space

  // Writes an op as a statement: v5 = gelu(v3).
  void write_op(int v);
  std::string value_of(const FusedOp& op);
  std::string formula(const FusedOp& op);
  // Writes the ops whose values have extent `wanted` and this depth, outside the loop over elements.
  void write_values(Extent wanted, int depth);
  // Returns all values with one element per element of the space that `targets` depend on, inputs included.
  std::set<int> slice(const std::vector<int>& targets) const;
  // Writes these values inside the loop over a pack; `which` is the subscript of that pack in the input's array.
  void write_slice(const std::set<int>& needed, std::string_view which);
  void write_once();

  // Writes the coordinates of the flat index `from` in the first `axes` axes as x0, x1, ...
  void write_coordinates(std::string_view from, size_t axes);
  std::string offset(int input, size_t axes) const;
  bool needs_coordinates() const;

  // Write the outputs with one element per element of the space: their arrays, the assignments inside the loop over a
  // pack (o0[j] = v5), and the stores after it (put(..., o0)).
  void declare_results();
  void keep_results();
  void put_results(std::string_view position);
  std::vector<int> whole_outputs() const;

  void open_kernel(std::string_view name, std::string_view count);

  const FusedProgram& program_;
  const FusedPlan& plan_;
  std::string text_;

 private:
  int indent_ = 0;
};

// Return the text of the kernels alone, in namespace genesis_device.
std::string write_elements(const FusedProgram& program, const FusedPlan& plan);  // no reductions
std::string write_rows(const FusedProgram& program, const FusedPlan& plan);      // with row reductions

}  // namespace genesis::cuda
