// The semantic check of a file's records: every index, type, size, name and byte range, against limits. Runs
// on what was read before anything is built from it, and on what is about to be written, so that a file we
// write is one we read.
#pragma once

#include "schema/file/format/records.h"

namespace genesis::file {

// `data_bytes`: what the file holds behind its graph section. Throws Error naming the culprit.
void check_records(const ModelRecord& record, uint64_t data_bytes);

}  // namespace genesis::file
