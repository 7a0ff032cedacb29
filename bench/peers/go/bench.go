// What bench/common/bench.h is for the C++ programs: command line, clock, one way of measuring.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	repetitions = 3 // After one to warm up; the median counts.
	enough      = 2 * time.Second
)

// none stands for a figure that a work does not have.
const none = -1.0

type work struct {
	size int
	run  func(threads, size int) []float64
}

func fail(sentence string) {
	fmt.Fprintln(os.Stderr, sentence)
	os.Exit(1)
}

// expect reports what the work computed and ends the program unless that is right.
func expect(got, want uint64) {
	fmt.Fprintln(os.Stderr, "result", got)
	if got != want {
		fail(fmt.Sprintf("wrong result: %d, expected %d", got, want))
	}
}

func percentile(values []float64, p float64) float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	return sorted[int(p*float64(len(sorted)-1)+0.5)]
}

// measure runs once to warm up, then up to repetitions times: the median of what it returns.
func measure(once func() float64) float64 {
	once()
	var values []float64
	for start := time.Now(); len(values) == 0 || len(values) < repetitions && time.Since(start) < enough; {
		values = append(values, once())
	}
	return percentile(values, 0.5)
}

// measureEach is measure for work that does not time itself: nanoseconds divided by count.
func measureEach(count float64, body func()) float64 {
	return measure(func() float64 {
		start := time.Now()
		body()
		return float64(time.Since(start).Nanoseconds()) / count
	})
}

func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail(err.Error())
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	return pages * float64(os.Getpagesize())
}

func fibValue(n int) uint64 {
	a, b := uint64(0), uint64(1)
	for ; n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintf(os.Stderr, "usage: %s <work> <threads> [size]\n", os.Args[0])
		os.Exit(2)
	}
	chosen, known := works[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "no such work here:", os.Args[1])
		os.Exit(2)
	}
	threads, _ := strconv.Atoi(os.Args[2])
	size := chosen.size
	if len(os.Args) == 4 {
		size, _ = strconv.Atoi(os.Args[3])
	}
	if threads < 1 || threads > 256 || size < 1 {
		fail("threads must be 1 to 256 and the size at least 1")
	}
	runtime.GOMAXPROCS(threads)
	var texts []string
	for _, figure := range chosen.run(threads, size) {
		if figure == none {
			texts = append(texts, "-")
		} else {
			texts = append(texts, strconv.FormatFloat(figure, 'g', 6, 64))
		}
	}
	fmt.Println(strings.Join(texts, " "))
}
