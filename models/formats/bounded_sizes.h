// Sizes that depend on data, such as the number of boxes that NonMaxSuppression takes: while a model is imported they are symbols of their
// own, so that the shapes of what is computed from such a result name them. In the end each becomes its upper bound, and outputs get a
// length that says how many rows are meant.
#pragma once

#include <string>
#include <vector>

#include "schema/core/error.h"
#include "schema/graph/model.h"
#include "schema/ops/tensor/bounded.h"

namespace genesis::models {

// Thrown if an op needs the number that such a size has when the model runs.
class NeedsCount : public Error {
 public:
  using Error::Error;
};

// The name of the output that counts the rows of the output `name`, and of the entry of the metadata that says along which axis.
std::string length_name(const std::string& name);      // "NAME.length", i64[]
std::string length_axis_key(const std::string& name);  // "bounded.NAME"

// Returns the rows with a new symbol as their number; several values with one count have one symbol.
Value with_symbol(const BoundedRows& found);
std::vector<Value> with_symbol(const std::vector<Value>& rows);
// Returns the symbol, if the size names one.
std::string bounded_symbol(const Dim& size);  // "" if it does not

// Gives each such size of the model's entry point its upper bound and adds the lengths of outputs. Throws Error if a bound is not known, and
// NeedsCount, naming the node, if an op works along an axis of such a size so that rows behind the length would change its result.
void settle_bounded_sizes(Model& model, const std::string& entry);

}  // namespace genesis::models
