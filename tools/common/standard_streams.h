// Repairs standard streams that were closed when the tool was started (`<&-`, `>&-`, `2>&-`).
#pragma once

namespace genesis::tools {

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed. Otherwise the next opened file would get
// that number: its bytes would be read as user input, or messages would be written into it. Standard input is then at
// its end. Writing fails, as on a full disk, because the descriptors are open only for reading. Throws Error if
// /dev/null cannot be opened.
void open_closed_streams();

}  // namespace genesis::tools
