// How older files stay readable. Each op has a version (OpInfo::version), raised when the meaning of its
// stored attributes, inputs or outputs changes; the same change adds one row to the list in upgrade.cpp,
// which says what a node of the version before has to become. An op that goes has a row too, with the op that
// takes its place. New attributes whose default means the old behaviour need neither.
#pragma once

#include <span>

#include "schema/file/format/records.h"

namespace genesis::file {

struct OpUpgrade {
  std::string_view op;
  int32_t from_version;
  std::string_view to_op;
  int32_t to_version;
  void (*apply)(NodeRecord&);  // changes attributes and inputs; the op and its version are set by the caller
};

std::span<const OpUpgrade> op_upgrades();

// Brings a node to the version this build knows, row by row; one that no row speaks of stays as it is.
void upgrade_node(NodeRecord& node, std::span<const OpUpgrade> upgrades);

// Throws one Error that lists every op of the file which this build lacks, or has only in another version.
void check_ops_known(const ModelRecord& record);

// All of the above for a whole file.
void upgrade(ModelRecord& record);

}  // namespace genesis::file
