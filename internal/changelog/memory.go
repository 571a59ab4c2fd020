package changelog

import "sync"

// Memory is what the slots of a process may hold between them: buffers that fill and buffers that are being flushed.
type Memory struct {
	limit int64

	mu   sync.Mutex
	held map[*slot]int64
}

// NewMemory makes a budget of so many bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit, held: map[*slot]int64{}} }

// Pressure is what a slot has to do about memory.
type Pressure int

// The pressures.
const (
	Free     Pressure = iota
	Wait              // fetch nothing until others, or oneself, have flushed
	FlushNow          // flush what is there
)

// Shares of the limit: from pauseAt on the largest slots pause, until resumeAt; from flushAt on the largest one flushes.
const (
	pauseAt  = 80
	resumeAt = 50
	flushAt  = 95
)

// Set notes what a slot holds and says what it has to do. paused is whether it waits already.
func (m *Memory) Set(s *slot, bytes int64, paused bool) Pressure {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[s] = bytes
	var sum, most int64
	for _, b := range m.held {
		sum += b
		most = max(most, b)
	}
	share := func(p int64) bool { return sum*100 >= m.limit*p }
	switch {
	case share(flushAt) && bytes == most && bytes > 0:
		return FlushNow
	case share(flushAt), share(pauseAt) && bytes*2 >= most, paused && share(resumeAt):
		return Wait
	}
	return Free
}

// Drop forgets a slot.
func (m *Memory) Drop(s *slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, s)
}

// Held is what all slots hold.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum int64
	for _, b := range m.held {
		sum += b
	}
	return sum
}
