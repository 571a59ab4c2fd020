package delta

import (
	"container/list"
	"sync"
)

// DefaultCacheBytes is the size of a Cache that nobody has given one.
const DefaultCacheBytes = 256 << 20

// Cache keeps what was read of commits and checkpoints: files that never change. Its keys hold their ETags, so a table that
// was dropped and made again at the same place is another one. What was used longest ago goes first.
type Cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order list.List // of *entry, the last used first
	index map[string]*list.Element
}

type entry struct {
	key   string
	value any
	size  int64
}

// NewCache makes a Cache of about so many bytes; 0: DefaultCacheBytes.
func NewCache(bytes int64) *Cache {
	if bytes <= 0 {
		bytes = DefaultCacheBytes
	}
	return &Cache{limit: bytes, index: map[string]*list.Element{}}
}

func (c *Cache) get(key string) (any, bool) {
	if c == nil || key == "" {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.index[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).value, true
}

// entryBytes is about what an entry takes beside its value.
const entryBytes = 200

// put keeps a value of about so many bytes, which nobody changes any more.
func (c *Cache) put(key string, value any, size int64) {
	if c == nil || key == "" {
		return
	}
	size += entryBytes + int64(len(key))
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.limit/4 {
		return
	}
	if e, ok := c.index[key]; ok {
		c.used -= e.Value.(*entry).size
		c.order.Remove(e)
	}
	c.index[key] = c.order.PushFront(&entry{key, value, size})
	c.used += size
	for c.used > c.limit {
		last := c.order.Back()
		old := c.order.Remove(last).(*entry)
		delete(c.index, old.key)
		c.used -= old.size
	}
}
