// The source `mapping`: who maps and unmaps memory, from probes at the calls of the targets' libc.
#ifndef PROFD_DAEMON_SOURCE_MAPPING_H_
#define PROFD_DAEMON_SOURCE_MAPPING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/mapping_knob.h"
#include "daemon/source/module.h"
#include "daemon/source/source.h"

namespace profd {

class MappingSource final : public Source {
 public:
  // `modules` must have probes, and must outlive this.
  MappingSource(const SourceContext& context, ModulesSource* modules)
      : context_(context), modules_(modules) {}

  const char* name() const override { return "mapping"; }
  void Detach() override { detached_ = true; }
  absl::Status Apply() override;
  absl::Status Drain(ProfileDelta& delta) override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;

 private:
  uint32_t one_in() const { return knob_.OneInAt(knob_.level()); }

  const SourceContext context_;
  ModulesSource* const modules_;
  MappingKnob knob_;
  bool detached_ = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MAPPING_H_
