// Code with much that is inlined, for comparing what is read of debug info with what others read.
// It is never run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

extern "C" int InC(int value) {
  static int calls = 0;
  return value + ++calls;
}

namespace outer {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double Area() const = 0;
};

template <typename T>
class Square final : public Shape {
 public:
  explicit Square(T side) : side_(side) {}
  double Area() const override { return static_cast<double>(side_ * side_); }

 private:
  T side_;
};

[[gnu::noinline]] double SumOfAreas(const std::vector<std::unique_ptr<Shape>>& shapes) {
  return std::accumulate(shapes.begin(), shapes.end(), 0.0,
                         [](double sum, const auto& shape) { return sum + shape->Area(); });
}

[[gnu::noinline]] std::map<std::string, int> Count(const std::vector<std::string>& words) {
  static std::mutex mutex;
  std::map<std::string, int> counts;
  for (const std::string& word : words) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++counts[word];
  }
  return counts;
}

}  // namespace

[[gnu::noinline]] std::vector<std::string> Sorted(std::vector<std::string> words) {
  std::sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace outer

int main(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  std::vector<std::unique_ptr<outer::Shape>> shapes;
  for (const std::string& word : outer::Sorted(words)) {
    shapes.push_back(std::make_unique<outer::Square<int>>(static_cast<int>(word.size())));
    shapes.push_back(std::make_unique<outer::Square<double>>(0.5));
  }
  const std::map<std::string, int> counts = outer::Count(words);
  for (const auto& [word, count] : counts) std::printf("%s %d\n", word.c_str(), InC(count));
  return outer::SumOfAreas(shapes) > 10 ? 1 : 0;
}
