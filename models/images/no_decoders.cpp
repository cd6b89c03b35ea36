// The stubs of a build without libjpeg and libpng.
#include "models/images/decoders.h"
#include "models/images/read_picture.h"
#include "schema/core/error.h"

namespace genesis::images {

std::string why_no_pictures() {
  return "this build reads no pictures: it was made without libjpeg and libpng (install libjpeg-dev and "
         "libpng-dev, and build again)";
}

Decoded decode_jpeg(std::string_view) { fail("{}", why_no_pictures()); }
Decoded decode_png(std::string_view) { fail("{}", why_no_pictures()); }

}  // namespace genesis::images
