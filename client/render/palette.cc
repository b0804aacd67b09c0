#include "client/render/palette.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/answer/reason.h"

namespace profctl {
namespace {

constexpr std::array<ColourSchemeInfo, 7> kSchemes = {{
    {ColourScheme::kKind, "kind", "by kind of code: application, runtime, libc, kernel"},
    {ColourScheme::kSafe, "safe", "by kind of code, safe for colour blindness"},
    {ColourScheme::kHot, "hot", "red to yellow"},
    {ColourScheme::kIo, "io", "blue"},
    {ColourScheme::kMem, "mem", "green"},
    {ColourScheme::kGrey, "grey", "grey, for black-and-white printers"},
    {ColourScheme::kState, "state", "by state: on a CPU, run queue, kinds of waits (wall)"},
}};

constexpr char kApplication = 'a';
constexpr char kRuntime = 'u';
constexpr char kLibc = 'l';
constexpr char kKernel = 'k';
constexpr char kReason = 'r';
constexpr char kSynthetic = 's';
constexpr char kBase = 'b';
constexpr char kCode = 'c';  // any code, in a scheme of one colour

constexpr Shade kUnknown = {kSynthetic, "unknown", 268, {3, 38, 79, 1}, {3, 28, 38, 1}};

constexpr std::array<Shade, 7> kWaits = {{
    {kApplication, "application", 122, {5, 42, 68, 1}, {5, 40, 24, 1}},
    {kRuntime, "runtime", 198, {4, 58, 71, 1}, {4, 52, 27, 1}},
    {kLibc, "libc", 50, {1, 76, 66, 1}, {1, 70, 22, 1}},
    {kKernel, "kernel", 12, {2, 80, 72, 1}, {2, 58, 32, 1}},
    {kReason, "reason", 336, {2, 62, 76, 1}, {2, 42, 35, 1}},
    kUnknown,
    {kBase, "process, thread", 220, {0, 8, 76, 1}, {0, 8, 31, 1}},
}};

// Greens for memory, with different hue and lightness.
constexpr std::array<Shade, 6> kMemory = {{
    {kApplication, "application", 128, {3, 44, 60, 1}, {3, 50, 22, 1}},
    {kRuntime, "runtime", 162, {2, 46, 76, 1}, {2, 38, 29, 1}},
    {kLibc, "libc", 84, {1, 58, 72, 1}, {1, 55, 21, 1}},
    {kKernel, "kernel", 62, {1, 44, 60, 1}, {1, 40, 24, 1}},
    kUnknown,
    {kBase, "process, thread", 150, {0, 6, 78, 1}, {0, 6, 31, 1}},
}};

// One tone each: any two differ by 15 or more (CIE76) for normal vision and without red, green or
// blue cones.
constexpr std::array<Shade, 7> kSafe = {{
    {kApplication, "application", 156, {0, 80, 54, 0}, {0, 85, 25, 0}},
    {kRuntime, "runtime", 213, {0, 85, 85, 0}, {0, 90, 44, 0}},
    {kLibc, "libc", 58, {0, 75, 50, 0}, {0, 85, 24, 0}},
    {kKernel, "kernel", 17, {0, 90, 68, 0}, {0, 80, 21, 0}},
    {kReason, "reason", 329, {0, 40, 72, 0}, {0, 40, 46, 0}},
    {kSynthetic, "unknown", 250, {0, 55, 76, 0}, {0, 25, 50, 0}},
    {kBase, "process, thread", 217, {0, 4, 92, 0}, {0, 4, 22, 0}},
}};

constexpr Shade kPlainReason = {kReason, "reason", 220, {0, 10, 88, 0}, {0, 10, 26, 0}};
constexpr Shade kPlainBase = {kBase, "process, thread", 220, {0, 8, 76, 1}, {0, 8, 34, 1}};

constexpr std::array<Shade, 4> kHot = {
    {{kCode, "code", 4, {7, 88, 73, 2}, {6, 70, 27, 1}}, kPlainReason, kUnknown, kPlainBase}};
constexpr std::array<Shade, 4> kIo = {
    {{kCode, "code", 196, {3, 66, 68, 3}, {4, 58, 25, 2}}, kPlainReason, kUnknown, kPlainBase}};
constexpr std::array<Shade, 4> kMem = {
    {{kCode, "code", 104, {6, 48, 64, 3}, {6, 46, 22, 1}}, kPlainReason, kUnknown, kPlainBase}};
constexpr std::array<Shade, 3> kGrey = {
    {{kCode, "code", 0, {0, 0, 72, 5}, {0, 0, 28, 4}},
     {kReason, "reason", 0, {0, 0, 96, 0}, {0, 0, 18, 0}},
     {kBase, "process, thread, unknown", 0, {0, 0, 66, 0}, {0, 0, 40, 0}}}};

constexpr char kRunning = 'h';
constexpr char kQueued = 'q';
constexpr char kLocked = 'w';
constexpr char kStorage = 'd';
constexpr char kPeers = 'n';
constexpr char kOtherWait = 'o';

// Warm where work could go on, cool where it waits.
constexpr std::array<Shade, 8> kStates = {{
    {kRunning, "on CPU", 8, {3, 82, 72, 1}, {3, 66, 28, 1}},
    {kQueued, "run queue", 46, {1, 84, 60, 1}, {1, 70, 25, 1}},
    {kLocked, "lock", 314, {3, 56, 76, 1}, {3, 42, 32, 1}},
    {kStorage, "disk, memory", 208, {3, 62, 73, 1}, {3, 54, 28, 1}},
    {kPeers, "network, pipe, poll", 150, {4, 42, 64, 1}, {4, 42, 24, 1}},
    {kOtherWait, "other waits", 230, {2, 18, 78, 1}, {2, 16, 34, 1}},
    kUnknown,
    {kBase, "process, thread", 220, {0, 8, 84, 1}, {0, 8, 31, 1}},
}};

char LetterOf(Reason state) {
  switch (state) {
    case profd::v1::REASON_ON_CPU:
      return kRunning;
    case profd::v1::REASON_RUNQUEUE:
      return kQueued;
    case profd::v1::REASON_LOCK:
      return kLocked;
    case profd::v1::REASON_RECLAIM:
    case profd::v1::REASON_FAULT:
    case profd::v1::REASON_FSYNC:
    case profd::v1::REASON_DISK:
      return kStorage;
    case profd::v1::REASON_POLL:
    case profd::v1::REASON_NET:
    case profd::v1::REASON_PIPE:
      return kPeers;
    default:
      return kOtherWait;
  }
}

char LetterOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kApplication:
      return kApplication;
    case NodeKind::kRuntime:
      return kRuntime;
    case NodeKind::kLibc:
      return kLibc;
    case NodeKind::kKernel:
      return kKernel;
    case NodeKind::kReason:
      return kReason;
    case NodeKind::kSynthetic:
      return kSynthetic;
    case NodeKind::kBase:
      return kBase;
  }
  return kBase;
}

bool IsCode(char letter) {
  return letter == kApplication || letter == kRuntime || letter == kLibc || letter == kKernel;
}

void AppendRules(std::span<const Shade> shades, Tone Shade::* paper, std::string& css) {
  for (const Shade& shade : shades) {
    const Tone& tone = shade.*paper;
    for (int i = 0; i < kTones; ++i) {
      absl::StrAppendFormat(&css, ".%c%d{fill:hsl(%d,%d%%,%d%%)}", shade.letter, i,
                            shade.hue + i * tone.hue_step, tone.saturation,
                            tone.lightness + i % 4 * tone.lightness_step);
    }
    css += "\n";
  }
}

}  // namespace

std::span<const ColourSchemeInfo> AllColourSchemes() { return kSchemes; }

std::optional<ColourScheme> ParseColourScheme(std::string_view name) {
  for (const ColourSchemeInfo& info : kSchemes) {
    if (info.name == name) return info.scheme;
  }
  return std::nullopt;
}

std::span<const Shade> ShadesOf(ColourScheme scheme, Unit unit) {
  switch (scheme) {
    case ColourScheme::kKind:
      if (unit == Unit::kBytes) return kMemory;
      return kWaits;
    case ColourScheme::kSafe:
      return kSafe;
    case ColourScheme::kHot:
      return kHot;
    case ColourScheme::kIo:
      return kIo;
    case ColourScheme::kMem:
      return kMem;
    case ColourScheme::kGrey:
      return kGrey;
    case ColourScheme::kState:
      // Bytes have no state.
      if (unit == Unit::kBytes) return kMemory;
      return kStates;
  }
  return kWaits;
}

const Shade& ShadeOf(const FlameNode& node, ColourScheme scheme, Unit unit) {
  const std::span<const Shade> shades = ShadesOf(scheme, unit);
  const bool by_state = scheme == ColourScheme::kState && unit != Unit::kBytes;
  const bool has_state = node.kind != NodeKind::kBase && node.kind != NodeKind::kSynthetic;
  const char letter = by_state && has_state ? LetterOf(node.state) : LetterOf(node.kind);
  for (const Shade& shade : shades) {
    if (shade.letter == letter || (shade.letter == kCode && IsCode(letter))) return shade;
  }
  return shades.back();
}

std::string StyleClass(const Shade& shade, std::string_view name) {
  // FNV-1a.
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return absl::StrCat(std::string(1, shade.letter), (hash ^ hash >> 16) % kTones);
}

std::string PaletteStyles(ColourScheme scheme, Unit unit) {
  const std::span<const Shade> shades = ShadesOf(scheme, unit);
  std::string css;
  AppendRules(shades, &Shade::light, css);
  css += "@media screen and (prefers-color-scheme: dark) {\n";
  AppendRules(shades, &Shade::dark, css);
  css += "}\n";
  return css;
}

}  // namespace profctl
