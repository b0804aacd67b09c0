#include "client/render/pprof.h"

#include <zlib.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/answer/group_by.h"
#include "client/text/text.h"
#include "pprof/profile.pb.h"

namespace profctl {
namespace {

namespace pprof = profd::pprof;

constexpr int kGzip = 16;  // added to the window's bits: a header of gzip instead of zlib's

absl::StatusOr<std::string> Compress(const std::string& data) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to compress the profile");
  }
  std::string compressed(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));  // NOLINT: zlib's type
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int result = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError("the profile cannot be compressed");
  return compressed;
}

class Writer {
 public:
  explicit Writer(const profd::v1::Profile& message) : message_(message) {
    String("");
    AddTables();
    const profd::v1::Coverage& coverage = message.coverage();
    out_.set_time_nanos(coverage.begin_ns());
    out_.set_duration_nanos(coverage.end_ns() - coverage.begin_ns());
    out_.add_comment(String(absl::StrCat("profd ", CleanName(message.host().daemon_version()),
                                         " on ", CleanName(message.host().hostname()), ", Linux ",
                                         CleanName(message.host().kernel_release()))));
  }

  // The values of a sample, of all views.
  void AddTypes(const std::vector<View>& views) {
    for (const View& view : views) {
      const std::string name(view.profile->kind->name);
      AddType(name, view.profile->type.unit());
      AddType(absl::StrCat(name, "_", view.profile->type.count_unit()), "count");
      if (view.profile->kind->level) AddType(name + "_growth", view.profile->type.unit());
    }
    *out_.mutable_period_type() = out_.sample_type(0);
    out_.set_period(views.front().profile->type.period());
    out_.set_default_sample_type(out_.sample_type(0).type());
  }

  // `first`: index of the first value of the view. Returns that of the next view.
  int AddView(const View& view, int first) {
    const bool level = view.profile->kind->level;
    for (const Sample* sample : view.shown) {
      pprof::Sample* out = out_.add_sample();
      AddStack(*sample, out);
      for (int i = 0; i < out_.sample_type_size(); i++) out->add_value(0);
      out->set_value(first, sample->value);
      out->set_value(first + 1, static_cast<int64_t>(sample->count));
      if (level) out->set_value(first + 2, sample->growth);
      AddLabels(*view.profile, *sample, out);
    }
    return first + (level ? 3 : 2);
  }

  absl::StatusOr<std::string> Finish() const { return Compress(out_.SerializeAsString()); }

 private:
  int64_t String(const std::string& text) {
    const auto [it, fresh] = strings_.try_emplace(text, out_.string_table_size());
    if (fresh) out_.add_string_table(text);
    return it->second;
  }
  int64_t Text(uint32_t index) {
    return String(CleanName(message_.strings(static_cast<int>(index))));
  }

  void AddType(const std::string& type, const std::string& unit) {
    pprof::ValueType* out = out_.add_sample_type();
    out->set_type(String(type));
    out->set_unit(String(unit));
  }

  // pprof's ids begin at 1: our indexes plus one. Our first mapping is empty.
  void AddTables() {
    const int main = MainMapping();
    for (int i = 0; i < message_.mappings_size(); i++) {
      // The main program comes first.
      const int index = i == 0 ? main : i == main ? 0 : i;
      if (index == 0) continue;
      const profd::v1::Mapping& mapping = message_.mappings(index);
      pprof::Mapping* out = out_.add_mapping();
      out->set_id(static_cast<uint64_t>(index));
      out->set_filename(Text(mapping.file()));
      // pprof wants any text that identifies the file.
      out->set_build_id(Text(mapping.build_id() != 0 ? mapping.build_id() : mapping.headers_id()));
      out->set_has_functions(true);
    }
    for (int i = 0; i < message_.functions_size(); i++) {
      pprof::Function* out = out_.add_function();
      out->set_id(static_cast<uint64_t>(i) + 1);
      out->set_name(Text(message_.functions(i).name()));
      out->set_system_name(out->name());
      out->set_filename(Text(message_.functions(i).file()));
    }
    for (int i = 0; i < message_.locations_size(); i++) {
      const profd::v1::Location& location = message_.locations(i);
      pprof::Location* out = out_.add_location();
      out->set_id(static_cast<uint64_t>(i) + 1);
      out->set_mapping_id(location.mapping());
      out->set_address(location.address());
      for (const profd::v1::Line& line : location.lines()) {
        pprof::Line* added = out->add_line();
        added->set_function_id(uint64_t{line.function()} + 1);
        added->set_line(line.line());
      }
    }
  }

  // The mapping of the first application code; 0 if there is none.
  int MainMapping() const {
    for (const profd::v1::Location& location : message_.locations()) {
      const uint32_t function = location.lines(location.lines_size() - 1).function();
      if (message_.functions(static_cast<int>(function)).kind() ==
          profd::v1::FRAME_KIND_APPLICATION) {
        return static_cast<int>(location.mapping());
      }
    }
    return 0;
  }

  void AddStack(const Sample& sample, pprof::Sample* out) {
    if (sample.stack == kUnsampled) {
      out->add_location_id(Unsampled());
      return;
    }
    for (const uint32_t location : message_.stacks(static_cast<int>(sample.stack)).locations()) {
      out->add_location_id(uint64_t{location} + 1);
    }
  }

  // A location for samples without a stack.
  uint64_t Unsampled() {
    if (unsampled_ == 0) {
      pprof::Function* function = out_.add_function();
      function->set_id(static_cast<uint64_t>(out_.function_size()));
      function->set_name(String("[unsampled]"));
      pprof::Location* location = out_.add_location();
      location->set_id(static_cast<uint64_t>(out_.location_size()));
      location->add_line()->set_function_id(function->id());
      unsampled_ = location->id();
    }
    return unsampled_;
  }

  void AddLabel(std::string_view key, const std::string& text, pprof::Sample* out) {
    if (text.empty()) return;
    pprof::Label* label = out->add_label();
    label->set_key(String(std::string(key)));
    label->set_str(String(CleanName(text)));
  }
  void AddNumber(std::string_view key, int64_t number, pprof::Sample* out) {
    pprof::Label* label = out->add_label();
    label->set_key(String(std::string(key)));
    label->set_num(number);
  }

  void AddLabels(const Profile& profile, const Sample& sample, pprof::Sample* out) {
    bool has_reason = sample.reason == profd::v1::REASON_UNSPECIFIED;
    bool has_object = false;
    if (sample.group == 0) {
      const Thread& thread = profile.threads[sample.threads.front()];
      AddLabel("process", thread.process, out);
      AddNumber("pid", thread.pid, out);
      AddLabel("thread", thread.name, out);
      AddNumber("tid", thread.tid, out);
    }
    for (size_t i = 0; i < profile.groups[sample.group].size(); i++) {
      const int key = message_.group_by(static_cast<int>(i));
      AddLabel(GroupKeyName(key), profile.groups[sample.group][i], out);
      has_reason = has_reason || key == profd::v1::GROUP_KEY_REASON;
      has_object = has_object || key == profd::v1::GROUP_KEY_OBJECT;
    }
    if (!has_reason) AddLabel("reason", std::string(DescribeReason(sample.reason).name), out);
    if (sample.syscall >= 0) AddNumber("syscall", sample.syscall, out);
    if (!has_object) AddLabel("object", sample.object, out);
    AddLabel("idle", sample.idle, out);
    AddLabel("lock", sample.lock, out);
    AddLabel("lock_kind", sample.lock_kind, out);
    AddLabel("task", sample.task, out);
  }

  const profd::v1::Profile& message_;
  pprof::Profile out_;
  absl::flat_hash_map<std::string, int64_t> strings_;
  uint64_t unsampled_ = 0;
};

}  // namespace

absl::StatusOr<std::string> RenderPprof(const std::vector<View>& views) {
  Writer writer(*views.front().profile->message);
  writer.AddTypes(views);
  int first = 0;
  for (const View& view : views) first = writer.AddView(view, first);
  return writer.Finish();
}

}  // namespace profctl
