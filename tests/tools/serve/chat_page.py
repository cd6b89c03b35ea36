#!/usr/bin/env python3
"""Talks with a server of genesis-run by its page in a browser: chat_page.py URL. Prints what is missing if it cannot, and ok if all is well."""
import importlib.util
import pathlib
import shutil
import sys

if not importlib.util.find_spec('selenium') or not all(map(shutil.which, ('chromium', 'chromedriver'))):
    print('missing: python3-selenium, chromium and chromium-driver')
    sys.exit()
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'page'))
from browser import Browser  # noqa: E402


def ask(browser, text, turns):
    browser.click('#text')
    browser.keys(text, '\ue007')  # Enter
    browser.wait(f"document.querySelectorAll('.turn').length === {turns} && document.getElementById('send').textContent === 'Send'", 60)
    return browser.texts('.turn')


with Browser() as browser:
    browser.driver.get(sys.argv[1])
    browser.wait("document.getElementById('name').textContent !== 'Genesis'", 20)
    browser.click('summary')
    browser.find('#tokens')[0].send_keys('12')
    first = ask(browser, 'Hello', 2)
    assert first[0] == 'Hello' and first[1], first
    state = r"/^\d+ tokens read \(\d+ from the cache\), first after [\d.]+ s, \d+ written at [\d.]+ tokens\/s, [1-9]\d* MiB of memory$/"
    browser.wait(f"{state}.test(document.getElementById('state').textContent)", 20)
    second = ask(browser, 'And then?', 4)
    assert second[:2] == first and second[2] == 'And then?' and not browser.find('.error'), second
    browser.click('#fresh')
    assert not browser.texts('.turn')
    hosts = browser.run("return [...new Set(performance.getEntriesByType('resource').map((one) => new URL(one.name).origin))]")
    assert hosts == [browser.run('return location.origin')], hosts
    severe = [entry['message'] for entry in browser.driver.get_log('browser') if entry['level'] == 'SEVERE' and 'favicon' not in entry['message']]
    assert not severe, severe
print('ok')
