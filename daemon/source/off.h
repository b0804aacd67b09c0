// Stands for a source that is disabled, or rejected by the kernel.
#ifndef PROFD_DAEMON_SOURCE_OFF_H_
#define PROFD_DAEMON_SOURCE_OFF_H_

#include <optional>
#include <string>
#include <utility>

#include "daemon/source/source.h"

namespace profd {

class OffSource final : public Source {
 public:
  // `layer`: its name in status. `why`: the reason for users, with the remedy.
  OffSource(std::string layer, std::string why) : layer_(std::move(layer)), why_(std::move(why)) {}

  const char* name() const override { return "off"; }
  std::optional<LayerState> Status() const override {
    return LayerState{.name = layer_, .on = false, .note = why_};
  }

 private:
  const std::string layer_;
  const std::string why_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_OFF_H_
