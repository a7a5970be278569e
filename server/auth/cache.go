package auth

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// cache remembers the last verified tokens, by their hash: a memory dump of it gives no
// token away, and how long a lookup takes says nothing about one. It has two halves; when
// the young one is full the old one is forgotten, so what is used stays.
type cache struct {
	size       int
	generation atomic.Uint64 // of the keys; a clear begins the next

	mu         sync.RWMutex
	young, old map[[sha256.Size]byte]verified
}

type verified struct {
	principal Principal
	expires   time.Time
}

func newCache(size int) *cache {
	return &cache{size: size, young: map[[sha256.Size]byte]verified{}}
}

// get returns who has the token, if it may be used now.
func (c *cache) get(key *[sha256.Size]byte, now time.Time) (Principal, bool) {
	c.mu.RLock()
	found, ok := c.young[*key]
	generation, aged := c.generation.Load(), false
	if !ok {
		found, aged = c.old[*key]
	}
	c.mu.RUnlock()
	if !ok && !aged || now.After(found.expires) {
		return Principal{}, false
	}
	if aged {
		c.put(key, found.principal, found.expires, generation)
	}
	return found.principal, true
}

// put remembers a token that was verified with the keys of generation.
func (c *cache) put(key *[sha256.Size]byte, p Principal, expires time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation.Load() != generation {
		return
	}
	if len(c.young) >= c.size {
		c.old, c.young = c.young, make(map[[sha256.Size]byte]verified, c.size)
	}
	c.young[*key] = verified{p, expires}
}

// clear forgets all tokens, those included that are being verified.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation.Add(1)
	c.young, c.old = map[[sha256.Size]byte]verified{}, nil
}
