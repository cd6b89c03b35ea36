// Upgrades of ops, which keep older files readable. Each op has a version (OpInfo::version), raised when the meaning of its
// stored attributes, inputs or outputs changes. The same change adds a row to the list in upgrade.cpp that converts a node of the
// version before. A removed op has a row too, with the op that replaces it. New attributes whose default means the old behavior
// need neither.
#pragma once

#include <span>

#include "schema/file/format/records.h"

namespace genesis::file {

struct OpUpgrade {
  std::string_view op;
  int32_t from_version;
  std::string_view to_op;
  int32_t to_version;
  void (*apply)(NodeRecord&);  // changes attributes and inputs; the caller sets the op and its version
};

std::span<const OpUpgrade> op_upgrades();

// Upgrades a node to the version this build knows, row by row; leaves it unchanged if no row applies.
void upgrade_node(NodeRecord& node, std::span<const OpUpgrade> upgrades);

// Throws one Error that lists every op of the file that this build lacks or knows only in another version.
void check_ops_known(const ModelRecord& record);

// Does both for a whole file.
void upgrade(ModelRecord& record);

}  // namespace genesis::file
