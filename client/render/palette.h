// The colours of flame graphs.
#ifndef PROFD_CLIENT_RENDER_PALETTE_H_
#define PROFD_CLIENT_RENDER_PALETTE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/analysis/flame_tree.h"
#include "client/answer/kind.h"

namespace profctl {

enum class ColourScheme {
  kKind,  // by kind of code; greens for memory
  kSafe,  // by kind of code, safe for colour blindness
  kHot,
  kIo,
  kMem,
  kGrey,
  kState,  // by state: running, on the run queue, kinds of waits
};

struct ColourSchemeInfo {
  ColourScheme scheme;
  std::string_view name;  // as in --colors
  std::string_view meaning;
};

// The first is the default.
std::span<const ColourSchemeInfo> AllColourSchemes();
std::optional<ColourScheme> ParseColourScheme(std::string_view name);

// Number of tones of each shade. Tones distinguish neighbours of one kind.
inline constexpr int kTones = 8;

// Saturation and lightness in per cent.
struct Tone {
  int hue_step, saturation, lightness, lightness_step;
};

// The colour of one or more kinds of frames, on light paper and on dark.
struct Shade {
  char letter;  // of the style class
  std::string_view name;
  int hue;
  Tone light, dark;
};

// For the legend: every shade once.
std::span<const Shade> ShadesOf(ColourScheme scheme, Unit unit);
const Shade& ShadeOf(const FlameNode& node, ColourScheme scheme, Unit unit);

// "a3": the class of a frame. The same name has the same tone in every picture.
std::string StyleClass(const Shade& shade, std::string_view name);
// CSS rules for all classes of a scheme. Dark ones hold on a screen that asks for them.
std::string PaletteStyles(ColourScheme scheme, Unit unit);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_PALETTE_H_
