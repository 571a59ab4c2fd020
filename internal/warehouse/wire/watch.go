package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// watchAfter is how long a statement runs before its client is looked after: most end sooner, and cost nothing.
const watchAfter = 100 * time.Millisecond

// watch calls gone when the client goes away before the returned function has been called. It reads ahead into the
// session's buffer, so the session must not read in between.
func (s *Session) watch(gone func()) func() {
	var mu sync.Mutex
	var stopped bool
	var done chan struct{}
	timer := time.AfterFunc(watchAfter, func() {
		mu.Lock()
		if stopped {
			mu.Unlock()
			return
		}
		done = make(chan struct{})
		mu.Unlock()
		defer close(done)
		// More bytes mean that the client is there and pipelines; once the buffer is full there is no looking further.
		for {
			_, err := s.io.in.Peek(min(s.io.in.Buffered()+1, s.io.in.Size()))
			switch {
			case err == nil && s.io.in.Buffered() < s.io.in.Size():
				continue
			case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
				gone()
			}
			return
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		mu.Lock()
		stopped = true
		running := done
		mu.Unlock()
		if running != nil {
			_ = s.nc.SetReadDeadline(time.Now())
			<-running
			_ = s.nc.SetReadDeadline(time.Time{})
		}
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
