// How older files stay readable. Each op has a version (OpInfo::version), raised when the meaning of its
// stored attributes, inputs or outputs changes; the same change adds one row to the list in upgrade.cpp,
// which says what a node of the version before has to become. New attributes whose default means the old
// behaviour need neither.
#pragma once

#include <span>

#include "schema/file/records.h"

namespace genesis::file {

struct OpUpgrade {
  std::string_view op;
  int32_t from_version;
  void (*apply)(
      NodeRecord&);  // may change the op's name, attributes and inputs; the version is set by the caller
};

std::span<const OpUpgrade> op_upgrades();

// Brings a node to the version this build knows, one version at a time; one that no row speaks of stays as it
// is.
void upgrade_node(NodeRecord& node, std::span<const OpUpgrade> upgrades);

// Throws one Error that lists every op of the file which this build lacks, or has only in another version.
void check_ops_known(const ModelRecord& record);

// All of the above for a whole file.
void upgrade(ModelRecord& record);

}  // namespace genesis::file
