// Chooses among an ordered list of implementations of one thing, best first, and reports the choice in the same form for every
// device. kernel_table.cpp chooses among the rows of an op's table. Inside kernels, above all matrix products, a row has a `name`
// and a `decline` function that returns why it cannot solve a problem (empty: it can); the last row can solve every problem.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/graph/target.h"

namespace genesis {

// Returns the first row that is not switched off and for which reason_against(row) is empty, or null; calls on_declined(row,
// reason) for each row before it.
template <class Row, class ReasonAgainst, class OnDeclined>
const Row* first_of(std::string_view family, std::span<const Row> rows, const KernelNames* disabled,
                    const ReasonAgainst& reason_against, const OnDeclined& on_declined) {
  for (const Row& row : rows) {
    std::string reason = is_allowed(disabled, family, row.name) ? reason_against(row) : "switched off";
    if (reason.empty()) return &row;
    on_declined(row, std::move(reason));
  }
  return nullptr;
}

// Returns the first row that can solve the problem. The last row is not asked, since it must be able to.
template <class Row, class Problem, class OnDeclined>
const Row& first_implementation(std::string_view family, std::span<const Row> rows, const Problem& problem,
                                const KernelNames* disabled, const OnDeclined& on_declined) {
  const auto reason_against = [&](const Row& row) { return row.decline(problem); };
  const Row* found = first_of(family, rows.first(rows.size() - 1), disabled, reason_against, on_declined);
  return found ? *found : rows.back();
}

template <class Row, class Problem>
const Row& first_implementation(std::string_view family, std::span<const Row> rows, const Problem& problem,
                                const KernelNames* disabled) {
  return first_implementation(family, rows, problem, disabled, [](const Row&, const std::string&) {});
}

inline std::string name_of_implementation(std::string_view family, std::string_view implementation) {
  return std::string(family) + "." + std::string(implementation);
}

// Returns what first_implementation() chooses by its full name, e.g. "gemm.packed", and why better rows decline.
template <class Row, class Problem>
KernelChoice choose_implementation(std::string_view family, std::span<const Row> rows, const Problem& problem,
                                   const KernelNames* disabled) {
  KernelChoice choice;
  const Row& found =
      first_implementation(family, rows, problem, disabled, [&](const Row& row, std::string reason) {
        choice.declined.push_back({name_of_implementation(family, row.name), std::move(reason)});
      });
  choice.name = name_of_implementation(family, found.name);
  if constexpr (requires { found.decided_later; }) choice.decided_later = found.decided_later;
  return choice;
}

// Returns the full names of all rows that can be switched off.
template <class Row>
std::vector<std::string> names_of_implementations(std::string_view family, std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows.first(rows.size() - 1))
    names.push_back(name_of_implementation(family, row.name));
  return names;
}

}  // namespace genesis
