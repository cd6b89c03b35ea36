// The semantic check of a file's records: every index, type, size, name and byte range, against limits. It runs on records that
// were read, before anything is built from them, and on records about to be written, so that every file we write can be read.
#pragma once

#include "schema/file/format/records.h"

namespace genesis::file {

// `data_bytes` is the number of bytes after the file's graph section. Throws Error naming the faulty record.
void check_records(const ModelRecord& record, uint64_t data_bytes);

}  // namespace genesis::file
