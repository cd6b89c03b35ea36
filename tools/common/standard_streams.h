// Standard input, output and error of a tool that was started with some of them closed (`<&-`, `>&-`, `2>&-`). Used by run_tool().
#pragma once

namespace genesis::tools {

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file that is opened gets that number: its
// bytes are then read as if a user had typed them, or messages are written into it. Standard input is at its end from the start.
// Writing fails, as it does on a full disk, because the descriptors are open for reading alone. Throws Error without /dev/null.
void open_closed_streams();

}  // namespace genesis::tools
