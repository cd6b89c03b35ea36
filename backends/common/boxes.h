// The arithmetic of nms on every device: which boxes suppress others.
#pragma once

#include "schema/core/philox.h"

namespace genesis {

// A box by its corners.
template <class T>
struct BoxCorners {
  T y1, x1, y2, x2;

  // `box` has four numbers as ops::Nms says.
  GENESIS_HOST_DEVICE static BoxCorners of(const T* box, bool center) {
    if (center) return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
    return {smaller(box[0], box[2]), smaller(box[1], box[3]), larger(box[0], box[2]), larger(box[1], box[3])};
  }
  GENESIS_HOST_DEVICE T area() const { return (y2 - y1) * (x2 - x1); }
  GENESIS_HOST_DEVICE bool suppresses(const BoxCorners& other, double threshold) const {
    const T height = smaller(y2, other.y2) - larger(y1, other.y1),
            width = smaller(x2, other.x2) - larger(x1, other.x1);
    if (!(height > 0) || !(width > 0) || !(area() > 0) || !(other.area() > 0)) return false;
    const T common = height * width, all = area() + other.area() - common;
    return all > 0 && common / all > static_cast<T>(threshold);
  }

 private:
  GENESIS_HOST_DEVICE static T smaller(T a, T b) { return a < b ? a : b; }
  GENESIS_HOST_DEVICE static T larger(T a, T b) { return a < b ? b : a; }
};

}  // namespace genesis
