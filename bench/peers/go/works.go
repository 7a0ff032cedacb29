// Go's part of the table. It has no task graph, hence no dag work; everything else it does.
package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var works = map[string]work{
	"yield":          {500_000, runYield},
	"fib":            {28, runFib},
	"spawn":          {1_000_000, runSpawn},
	"skynet":         {1_000_000, runSkynet},
	"channel":        {500_000, runChannel},
	"channel_cross":  {10_000, runChannelCross},
	"blocked":        {1_000_000, runBlocked},
	"cancel_polling": {10_000, runCancelPolling},
	"cancel_blocked": {10_000, runCancelBlocked},
	"wake_awake":     {20_000, runWakeAwake},
	"wake_parked":    {300, runWakeParked},
}

// Two goroutines a processor take turns; processor time a switch.
func runYield(threads, count int) []float64 {
	var yields atomic.Uint64
	ns := measureEach(float64(2*count), func() {
		yields.Store(0)
		var group sync.WaitGroup
		for i := 0; i < 2*threads; i++ {
			group.Add(1)
			go func() {
				for j := 0; j < count; j++ {
					runtime.Gosched()
				}
				yields.Add(uint64(count))
				group.Done()
			}()
		}
		group.Wait()
	})
	expect(yields.Load(), uint64(2*count*threads))
	return []float64{ns}
}

func fib(n int) uint64 {
	if n < 2 {
		return uint64(n)
	}
	result := make(chan uint64, 1)
	go func() { result <- fib(n - 1) }()
	b := fib(n - 2)
	return <-result + b
}

func runFib(_, n int) []float64 {
	var value uint64
	ns := measureEach(float64(fibValue(n+1)-1), func() { value = fib(n) })
	expect(value, fibValue(n))
	return []float64{ns}
}

func runSpawn(_, count int) []float64 {
	ns := measureEach(float64(count), func() {
		var group sync.WaitGroup
		group.Add(count)
		for i := 0; i < count; i++ {
			go group.Done()
		}
		group.Wait()
	})
	var ran atomic.Uint64
	var group sync.WaitGroup
	group.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			ran.Add(1)
			group.Done()
		}()
	}
	group.Wait()
	expect(ran.Load(), uint64(count))
	return []float64{ns}
}

// As the benchmark was first published: each child answers through its parent's channel.
func skynet(answer chan<- uint64, first, leaves uint64) {
	if leaves == 1 {
		answer <- first
		return
	}
	answers := make(chan uint64, 10)
	for i := uint64(0); i < 10; i++ {
		go skynet(answers, first+i*(leaves/10), leaves/10)
	}
	var sum uint64
	for i := 0; i < 10; i++ {
		sum += <-answers
	}
	answer <- sum
}

func runSkynet(_, leaves int) []float64 {
	var sum uint64
	ms := measureEach(1e6, func() {
		answer := make(chan uint64, 1)
		go skynet(answer, 0, uint64(leaves))
		sum = <-answer
	})
	expect(sum, uint64(leaves)*uint64(leaves-1)/2)
	return []float64{ms}
}

func pingPong(count int, prepare func()) uint64 {
	there, back := make(chan uint64), make(chan uint64)
	go func() {
		prepare()
		for i := 0; i < count; i++ {
			back <- <-there
		}
	}()
	prepare()
	var sum uint64
	for i := 0; i < count; i++ {
		there <- 1
		sum += <-back
	}
	return sum
}

func runChannel(threads, count int) []float64 {
	if threads != 1 {
		fail("one thread; channel_cross is for two")
	}
	var sum uint64
	ns := measureEach(float64(count), func() { sum = pingPong(count, func() {}) })
	expect(sum, uint64(count))
	return []float64{ns}
}

// Each goroutine is locked to a thread of its own: left alone, Go soon runs both on one processor.
func runChannelCross(threads, count int) []float64 {
	if threads != 2 {
		fail("two threads; channel is for one")
	}
	var sum uint64
	ns := measureEach(float64(count), func() {
		done := make(chan uint64)
		go func() { done <- pingPong(count, runtime.LockOSThread) }() // The locked threads end with their goroutines.
		sum = <-done
	})
	expect(sum, uint64(count))
	return []float64{ns, 1}
}

func runBlocked(_, count int) []float64 {
	var started, passed atomic.Uint64
	gate := make(chan struct{})
	var group sync.WaitGroup
	group.Add(count)
	before := residentBytes()
	start := time.Now()
	for i := 0; i < count; i++ {
		go func() {
			started.Add(1)
			<-gate
			passed.Add(1)
			group.Done()
		}()
	}
	for started.Load() < uint64(count) {
		runtime.Gosched()
	}
	made := time.Since(start)
	bytes := (residentBytes() - before) / float64(count)
	release := time.Now()
	close(gate)
	group.Wait()
	released := time.Since(release)
	expect(passed.Load(), uint64(count))
	return []float64{bytes, made.Seconds(), released.Seconds()}
}

// cancelAll starts count goroutines that run body until they see the context's end, and times its cancellation.
func cancelAll(count int, body func(done <-chan struct{}, started *atomic.Uint64)) []float64 {
	var acknowledged atomic.Uint64
	us := measure(func() float64 {
		var started atomic.Uint64
		acknowledged.Store(0)
		var group sync.WaitGroup
		group.Add(count)
		ctx, cancel := context.WithCancel(context.Background())
		for i := 0; i < count; i++ {
			go func() {
				body(ctx.Done(), &started)
				acknowledged.Add(1)
				group.Done()
			}()
		}
		for started.Load() < uint64(count) {
			runtime.Gosched()
		}
		requested := time.Now()
		cancel()
		group.Wait()
		return float64(time.Since(requested).Nanoseconds()) / 1000
	})
	expect(acknowledged.Load(), uint64(count))
	return []float64{us}
}

func runCancelPolling(_, count int) []float64 {
	return cancelAll(count, func(done <-chan struct{}, started *atomic.Uint64) {
		started.Add(1)
		for {
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	})
}

// Each waits for a message that never comes, or for the end.
func runCancelBlocked(_, count int) []float64 {
	never := make(chan uint64)
	return cancelAll(count, func(done <-chan struct{}, started *atomic.Uint64) {
		started.Add(1)
		select {
		case <-done:
		case <-never:
		}
	})
}

// See bench/common/wake.h.
func runWake(threads, samples int, gap time.Duration) []float64 {
	if threads < 2 {
		fail("a wake-up needs two threads")
	}
	epoch := time.Now()
	var startedAt atomic.Int64
	var latencies []float64
	dropped := samples/10 + 1
	for i := 0; i < samples+dropped; i++ {
		for end := time.Now().Add(gap); gap > 0 && time.Now().Before(end); {
		}
		startedAt.Store(0)
		pushed := int64(time.Since(epoch))
		go func() { startedAt.Store(int64(time.Since(epoch))) }()
		var started int64
		for started = startedAt.Load(); started == 0; started = startedAt.Load() {
		}
		if i >= dropped {
			latencies = append(latencies, float64(started-pushed))
		}
	}
	expect(uint64(len(latencies)), uint64(samples))
	return []float64{percentile(latencies, 0.5), percentile(latencies, 0.99)}
}

func runWakeAwake(threads, samples int) []float64 { return runWake(threads, samples, 0) }

func runWakeParked(threads, samples int) []float64 {
	return runWake(threads, samples, 2*time.Millisecond)
}
