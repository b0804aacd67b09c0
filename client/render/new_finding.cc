#include "client/render/new_finding.h"

#include <string>

namespace profctl {

using profd::v1::Finding;

Finding NewFinding(const View& view, profd::v1::FindingRule rule) {
  Finding finding;
  finding.set_rule(rule);
  finding.set_sample_type(std::string(view.profile->kind->name));
  finding.set_idle(view.idle_shown);
  return finding;
}

void SetShare(int64_t value, int64_t whole, Finding* finding) {
  finding->set_value(value);
  finding->set_whole(whole);
  finding->set_share(whole > 0 ? static_cast<double>(value) / static_cast<double>(whole) : 0);
}

}  // namespace profctl
